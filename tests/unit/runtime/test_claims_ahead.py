"""While quick answers are stored, the next tasks are claimed on another thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support.agents import LONG, SECONDS, Recorder, begin, double, run_of
from support.eventually import eventually

from afl.kernel.errors import StoreUnavailable
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.handler import Callback, Handlers
from afl.runtime.in_hand import in_hand
from afl.runtime.memory_store import MemoryStore
from afl.runtime.worker.aside import Aside
from afl.runtime.worker.core import Worker
from afl.runtime.worker.terms import Terms
from afl.runtime.worker.thread_pool import ThreadPool

SLOTS = 16
ELEMENTS = 60


class Crew:
    """A worker that is driven round by round, and how often each method of its store was called."""

    def __init__(self, store: MemoryStore) -> None:
        self.recorder = Recorder(store)
        self.pool = ThreadPool("crew")
        self._go = threading.Event()
        self.worker = Worker(
            Evaluator(self.recorder.api),
            Handlers([Callback("Double", self._double)]),
            Terms(slots=SLOTS, poll_seconds=LONG),
            lambda: self.pool,
        )

    def first_answers(self) -> None:
        """All slots are done and nothing is stored yet; it is known now how quick they are."""
        self.worker.round()
        self._go.set()
        eventually(lambda: self.worker.bench._done.qsize() == SLOTS)
        self.worker.bench._threads.mean = 0.001

    def _double(self, payload: dict[str, Any]) -> Any:
        self._go.wait()
        return double(payload)


def test_claims_do_not_wait_for_what_is_being_stored(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, crew, claimed = begin(store, "ns.Many", {"list": list(range(ELEMENTS))}), Crew(store), []
    ahead = threading.Event()
    claim, commit = store.claim_tasks, store.commit_all

    def claiming(*args: Any, **options: Any) -> Any:
        found = claim(*args, **options)
        claimed.append(len(found))
        if len(claimed) > 1:
            ahead.set()
        return found

    def storing(*args: Any) -> Any:
        assert ahead.wait(SECONDS), "the claim waits for the commit"
        return commit(*args)

    monkeypatch.setattr(store, "claim_tasks", claiming)
    monkeypatch.setattr(store, "commit_all", storing)
    crew.first_answers()
    crew.worker.round()
    assert claimed == [SLOTS, ELEMENTS - SLOTS]
    assert len(crew.worker.bench.tasks) == ELEMENTS - SLOTS
    while run_of(store, run).state != RunnerState.COMPLETED:
        crew.worker.round()
    crew.worker.drain(SECONDS)


def test_what_was_claimed_ahead_is_others_to_have_while_answers_cannot_be_stored(store: MemoryStore) -> None:
    run, crew = begin(store, "ns.Many", {"list": list(range(ELEMENTS))}), Crew(store)
    crew.first_answers()
    crew.recorder.fail("commit_all", StoreUnavailable("away"), StoreUnavailable("away"))
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            crew.worker.round()
        assert len(store.find_tasks(state=TaskState.RUNNING)) == SLOTS
    assert crew.recorder.count("claim_tasks") == 2
    crew.worker.drain(SECONDS)
    states = Counter(task.state for task in store.get_tasks_by_workflow(run))
    assert states == {TaskState.COMPLETED: SLOTS, TaskState.PENDING: ELEMENTS - SLOTS}


def test_what_is_claimed_ahead_is_in_hand_and_given_back_at_the_end(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, crew = begin(store, "ns.Many", {"list": list(range(ELEMENTS))}), Crew(store)
    crew.first_answers()
    crew.recorder.fail("commit_all", StoreUnavailable("away"))
    monkeypatch.setattr(crew.worker._intake, "return_ahead", lambda: None)  # as if it had ended just now
    with pytest.raises(StoreUnavailable):
        crew.worker.round()
    eventually(lambda: len(store.find_tasks(state=TaskState.RUNNING)) == ELEMENTS)
    running = {(task.uuid, task.epoch) for task in store.find_tasks(state=TaskState.RUNNING)}
    eventually(lambda: running <= in_hand().tasks)
    crew.worker._intake.begin([])
    assert running <= in_hand().tasks
    crew.worker.drain(SECONDS)
    states = Counter(task.state for task in store.get_tasks_by_workflow(run))
    assert states == {TaskState.COMPLETED: SLOTS, TaskState.PENDING: ELEMENTS - SLOTS}


def test_a_claim_ahead_that_fails_is_asked_for_again(store: MemoryStore) -> None:
    run, crew = begin(store, "ns.Many", {"list": list(range(ELEMENTS))}), Crew(store)
    crew.first_answers()
    crew.recorder.fail("claim_tasks", StoreUnavailable("away"))
    with pytest.raises(StoreUnavailable):
        crew.worker.round()
    while run_of(store, run).state != RunnerState.COMPLETED:
        crew.worker.round()
    crew.worker.drain(SECONDS)


def test_a_claim_ahead_that_fails_together_with_the_commit_is_told_and_no_more(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    begin(store, "ns.Many", {"list": list(range(ELEMENTS))})
    crew = Crew(store)
    crew.first_answers()
    crew.recorder.fail("commit_all", StoreUnavailable("away"))
    crew.recorder.fail("claim_tasks", StoreUnavailable("gone"))
    with pytest.raises(StoreUnavailable):
        crew.worker.round()
    assert "a claim failed: gone" in caplog.text
    crew.worker.drain(SECONDS)
    assert store.find_tasks(state=TaskState.RUNNING) == []


def test_aside_gives_what_came_of_it_or_raises_it() -> None:
    pool = ThreadPool("aside")
    aside: Aside[str] = Aside(lambda: pool)

    def on_thread() -> str:
        return threading.current_thread().name

    for _ in range(2):
        aside.begin(on_thread)
        assert aside.begun
        assert aside.take() == "aside-1"
        assert not aside.begun
    aside.begin(_failing)
    with pytest.raises(KeyError):
        aside.take()
    aside.begin(on_thread)
    assert aside.take() == "aside-1"
    pool.shutdown()
    refused: Callable[[], str] = on_thread
    for _ in range(2):
        with pytest.raises(RuntimeError, match="closed"):
            aside.begin(refused)
    assert not aside.begun


def _failing() -> str:
    raise KeyError("no")
