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
from afl.runtime.worker.thread_pool import Job, ThreadPool

SLOTS = 16
ELEMENTS = 60


class HeldThreads:
    """Jobs are held until `release` runs them on the calling thread; later jobs run on threads of their own."""

    def __init__(self) -> None:
        self._pool = ThreadPool("crew")
        self._held: list[Job] | None = []

    def run(self, job: Job) -> None:
        if self._held is None:
            self._pool.run(job)
        else:
            self._held.append(job)

    def release(self) -> None:
        held, self._held = self._held or [], None
        for job in held:
            job()


class Crew:
    """A worker that is driven round by round, and how often each method of its store was called."""

    def __init__(self, store: MemoryStore) -> None:
        self.recorder = Recorder(store)
        self._threads = HeldThreads()
        self.worker = Worker(
            Evaluator(self.recorder.api),
            Handlers([Callback("Double", double)]),
            Terms(slots=SLOTS, poll_seconds=LONG),
            lambda: self._threads,
        )

    def first_answers(self) -> None:
        """All slots are done and nothing is stored yet; it is known now how quick they are."""
        self.worker.round()
        self._threads.release()
        assert self.worker.bench.limit >= ELEMENTS, "handlers that return at once are quick"


class Interrupted(BaseException):
    """As an interrupt, which the test runner would take for one of its own."""


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

    def interrupted(*_: Any) -> Any:
        """Once the next tasks are claimed."""
        eventually(lambda: len(store.find_tasks(state=TaskState.RUNNING)) == ELEMENTS)
        raise Interrupted

    crew.first_answers()
    with monkeypatch.context() as patch:
        patch.setattr(store, "commit_all", interrupted)
        with pytest.raises(Interrupted):
            crew.worker.round()
    running = {(task.uuid, task.epoch) for task in store.find_tasks(state=TaskState.RUNNING)}
    assert len(running) == ELEMENTS
    eventually(lambda: running <= in_hand().tasks)
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
