"""What the live view sees of slow parts: the last look of a thread, which lives as long as somebody asks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.eventually import eventually

from afl.dashboard import live as lookout
from afl.dashboard.live import BackgroundPoll, Look, Sources
from afl.kernel.errors import StoreUnavailable
from afl.kernel.settings import Settings
from afl.runtime.memory_store import MemoryStore


class Part:
    """Something to look at: how often it was opened, and what is seen there."""

    def __init__(self) -> None:
        self.opened = 0
        self.open_now = 0
        self.seen: object = "first"
        self.away = False
        self.stuck = threading.Event()
        self.stuck.set()

    @contextmanager
    def enter(self, sources: Sources) -> Iterator[Look]:
        self.opened += 1
        self.open_now += 1
        try:
            yield self.look
        finally:
            self.open_now -= 1

    def look(self, subject: str) -> object:
        self.stuck.wait()
        if self.away:
            raise StoreUnavailable("it does not answer")
        return (subject, self.seen)


@pytest.fixture
def sources() -> Iterator[Sources]:
    store = MemoryStore()
    yield Sources(store, Settings())
    store.close()


def test_it_sees_what_is_there_and_what_changes(sources: Sources) -> None:
    part = Part()
    watch = BackgroundPoll(part.enter, every_seconds=0.001)
    assert watch.see(sources, "a") is None
    eventually(lambda: watch.see(sources, "a") == ("a", "first"))
    part.seen = "second"
    eventually(lambda: watch.see(sources, "a") == ("a", "second"))
    eventually(lambda: watch.see(sources, "b") == ("b", "second"))
    assert part.opened == 2


def test_a_part_that_does_not_answer_holds_nobody_up(sources: Sources) -> None:
    part = Part()
    part.stuck.clear()
    watch = BackgroundPoll(part.enter, every_seconds=0.001)
    assert [watch.see(sources, "a") for _ in range(100)] == [None] * 100
    part.stuck.set()
    eventually(lambda: watch.see(sources, "a") == ("a", "first"))


def test_that_it_is_away_is_seen_and_that_it_is_back(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "_REST_SECONDS", 0.001)
    part = Part()
    part.away = True
    watch = BackgroundPoll(part.enter, every_seconds=0.001)
    eventually(lambda: watch.see(sources, "a") == "StoreUnavailable: it does not answer")
    part.away = False
    eventually(lambda: watch.see(sources, "a") == ("a", "first"))


def test_nobody_looks_when_nobody_asks(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "_UNWATCHED_SECONDS", 0.05)
    part = Part()
    watch = BackgroundPoll(part.enter, every_seconds=0.001)
    watch.see(sources, "a")
    eventually(lambda: part.opened == 1 and part.open_now == 0)
    watch.see(sources, "a")
    eventually(lambda: part.opened == 2 and part.open_now == 0)
