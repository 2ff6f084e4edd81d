"""A handler that takes 30 s under `poll_once` is not robbed; one that takes longer than its lease is.

No thread renews the lease of a task that `poll_once` works on, so it gets a long one: 60 s. Nobody waits here. What
decides is how far the end of the lease lies ahead on the store's clock, so a second passes by moving that end a second
nearer, and after each the other worker looks for something to take. It has a handler for the facet and would call it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afl.language import compile_source
from afl.runtime.agent_poller import AgentPoller
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.service import RunnerService
from afl.runtime.store import open_store
from afl.runtime.task_handlers.tool_registry import ToolRegistry
from afl.runtime.types import WorkflowId

SOURCE = """namespace t {
    event facet Work(n: Long) => (m: Long)
    workflow One(n: Long) => (m: Long) andThen { w = Work(n = $.n) yield One(m = w.m) }
}
"""


@pytest.fixture(params=["memory", "sqlite", "postgres", "mongo"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[PersistenceAPI, PersistenceAPI]]:
    """One store as two workers open it; memory they must share."""
    if request.param == "memory":
        memory = MemoryStore()
        yield memory, memory
        memory.close()
        return
    fixtures = {"postgres": "postgres_database", "mongo": "mongo_database_url"}
    url = (
        f"sqlite:///{tmp_path / 'afl.db'}"
        if request.param == "sqlite"
        else str(request.getfixturevalue(fixtures[request.param]))
    )
    ours, others = open_store(url), open_store(url)
    yield ours, others
    ours.close()
    others.close()


class LongWork:
    """A handler under way in `poll_once` on a thread of its own; it answers when it is told to."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self._begun, self._go_on = threading.Event(), threading.Event()
        evaluator = Evaluator(store)
        program = Program({"program": compile_source(SOURCE).program, "workflow": "t.One"})
        self.run_id = WorkflowId(evaluator.submit(program, {"n": 1}))
        evaluator.resume(self.run_id)
        self._poller = AgentPoller(store, evaluator)
        self._poller.register("t.Work", self._handle)
        self.calls = 0
        self.polled: list[int] = []
        self._thread = threading.Thread(target=lambda: self.polled.append(self._poller.poll_once()))

    def _handle(self, payload: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        self._begun.set()
        assert self._go_on.wait(60)
        return {"m": 1}

    def begin(self) -> tuple[int, int]:
        """Start, until the handler is under way; the store's clock before and after the claim."""
        before = self._store.now()
        self._thread.start()
        assert self._begun.wait(60)
        return before, self._store.now()

    def end(self) -> None:
        self._go_on.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def task(self) -> TaskDefinition:
        (task,) = self._store.get_tasks_by_workflow(self.run_id)
        return task

    def a_second_passes(self) -> None:
        task = self.task()
        task.lease_until -= 1000
        self._store.save_task(task)

    def result(self) -> tuple[str, dict[str, Any]]:
        run = self._store.get_run(self.run_id)
        assert run is not None
        return run.state, run.outputs


def other_worker(store: PersistenceAPI) -> tuple[RunnerService, list[int]]:
    """A runner with a handler for the same facet, and the calls it gets."""
    calls: list[int] = []
    registry = ToolRegistry()

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        calls.append(payload["n"])
        return {"m": 2}

    registry.register("t.Work", work)
    return RunnerService(store, Evaluator(store), RunnerConfig(http=False), registry), calls


def test_a_handler_of_30_seconds_is_not_robbed(stores: tuple[PersistenceAPI, PersistenceAPI]) -> None:
    work = LongWork(stores[0])
    other, calls = other_worker(stores[1])
    before, after = work.begin()
    claimed = work.task()
    assert claimed.state == TaskState.RUNNING
    assert before + 60_000 <= claimed.lease_until <= after + 60_000
    for _ in range(30):
        work.a_second_passes()
        assert other.run_once() == 0
    held = work.task()
    assert (held.state, held.owner, held.epoch) == (TaskState.RUNNING, claimed.owner, claimed.epoch)
    work.end()
    assert (work.calls, work.polled, calls) == (1, [1], [])
    assert work.result() == (RunnerState.COMPLETED, {"m": 1})
    assert (work.task().deliveries, work.task().deaths) == (1, 0)


def test_a_handler_that_outlasts_its_lease_keeps_its_task_while_its_process_is_known_to_live(
    stores: tuple[PersistenceAPI, PersistenceAPI],
) -> None:
    work = LongWork(stores[0])
    other, calls = other_worker(stores[1])
    work.begin()
    for _ in range(61):
        work.a_second_passes()
    if isinstance(stores[0], MongoStore):  # nothing says there that the process lives
        assert other.run_once() == 1
        work.end()
        assert (work.calls, calls) == (1, [1])
        assert work.result() == (RunnerState.COMPLETED, {"m": 2})
        assert (work.task().deliveries, work.task().deaths, work.task().expiries) == (2, 0, 1)
    else:
        assert other.run_once() == 0
        work.end()
        assert (work.calls, calls) == (1, [])
        assert work.result() == (RunnerState.COMPLETED, {"m": 1})
        assert (work.task().deliveries, work.task().deaths, work.task().expiries) == (1, 0, 0)
