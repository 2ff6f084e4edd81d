"""The log of a run: read, and followed while others write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from operated_store import begin

from afl.kernel.errors import InputError
from afl.kernel.ids import random_id
from afl.operations.run import control
from afl.operations.run.run_log import follow_log, read_log
from afl.runtime.entities import LogDefinition
from afl.runtime.memory_store import MemoryStore


def entry(run: str, message: str, **fields: object) -> LogDefinition:
    return replace(LogDefinition(random_id(), 0, run, f"{run}/0/a", message=message), **fields)  # type: ignore[arg-type]


def test_reading(store: MemoryStore) -> None:
    run = begin(store)
    store.save_logs([entry(run, "begun"), entry(run, "half", details={"progress": 0.5}, note_type="warning")])
    first, second = read_log(store, run)
    assert (first.step, first.message, first.level, first.progress) == ("a", "begun", "info", None)
    assert (second.progress, second.level, second.step_id) == (0.5, "warning", f"{run}/0/a")
    assert (first.text, second.text) == ("begun", "50% half")


def test_progress_without_words_is_said_once(store: MemoryStore) -> None:
    run = begin(store)
    store.save_logs([entry(run, "50%", details={"progress": 0.5})])
    assert [line.text for line in read_log(store, run)] == ["50%"]


def test_following_until_the_run_is_over(store: MemoryStore) -> None:
    run = begin(store)
    store.save_logs([entry(run, "one")])

    def last_words() -> None:
        store.save_logs([entry(run, "last")])
        control.cancel(store, run)

    steps: list[Callable[[], object]] = [
        lambda: store.save_logs([entry(run, "two"), entry(run, "three")]),
        lambda: None,
        last_words,
    ]

    def wait() -> bool:
        steps.pop(0)()
        return True

    assert [line.message for line in follow_log(store, run, wait=wait)] == ["one", "two", "three", "last"]
    assert steps == []


def test_entries_that_appear_out_of_order_are_not_lost(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer took position 1 and commits after the one who took 2."""
    run = begin(store)
    late, early = entry(run, "late"), entry(run, "early")
    looks = [[(2, early)], [(1, late), (2, early)], [(1, late), (2, early)]]
    asked: list[int] = []

    def get_logs_after(runner_id: str, position: int, limit: int = 0) -> list[tuple[int, LogDefinition]]:
        asked.append(position)
        return looks.pop(0)

    monkeypatch.setattr(store, "get_logs_after", get_logs_after)
    waits = [True, True, False]
    lines = follow_log(store, run, wait=lambda: waits.pop(0))
    assert [line.message for line in lines] == ["early", "late"]
    assert asked == [0, 0, 0]


def test_a_long_log_is_read_in_pieces(store: MemoryStore) -> None:
    run = begin(store)
    store.save_logs([entry(run, str(number)) for number in range(2_500)])
    lines = [line.message for line in follow_log(store, run, wait=lambda: False)]
    assert lines == [str(number) for number in range(2_500)]


def test_without_a_wait_of_ones_own_the_end_of_the_run_is_heard(store: MemoryStore) -> None:
    run = begin(store)
    store.save_logs([entry(run, "one")])
    received = []
    for line in follow_log(store, run):
        received.append(line.message)
        control.cancel(store, run)
    assert received == ["one"]


def test_a_run_that_is_gone(store: MemoryStore) -> None:
    with pytest.raises(InputError, match="run nope is no longer in this store"):
        list(follow_log(store, "nope"))
