"""The store does what it is asked, but the reply is lost: what was claimed so must not stay with nobody.

The process lives, and leases are long here: neither a death nor the end of a lease sets such a task or run free.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually

from afl.kernel.errors import StoreUnavailable
from afl.language import compile_source
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import TaskFilter
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.program.program import Program
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.service import RunnerService
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

SOURCE = """namespace t {
    event facet Work(n: Long) => (m: Long)
    workflow One(n: Long) => (m: Long) andThen { w = Work(n = $.n) yield One(m = w.m) }
}
"""


class Forgetful(SqliteStore):
    """Loses the reply to a claim, of tasks or runs, or to a commit that creates tasks, when it is told to."""

    lose_claim = lose_commit = lose_take = False

    def take_runs(self, *args: Any, **terms: Any) -> list[RunDefinition]:
        taken = super().take_runs(*args, **terms)
        if taken and self.lose_take:
            self.lose_take = False
            raise StoreUnavailable("the connection was lost; nobody knows whether it was done")
        return taken

    def claim_tasks(self, *args: Any, **terms: Any) -> list[TaskDefinition]:
        claimed = super().claim_tasks(*args, **terms)
        if claimed and self.lose_claim:
            self.lose_claim = False
            raise StoreUnavailable("the connection was lost; nobody knows whether it was done")
        return claimed

    def commit(self, changes: IterationChanges) -> None:
        created = bool(changes.created_tasks)
        super().commit(changes)
        if created and self.lose_commit:
            self.lose_commit = False
            raise StoreUnavailable("the connection was lost; nobody knows whether it was done")


class Bench:
    """A service in a thread, with a handler that is held for n = 0 and answers at once for all others."""

    def __init__(self, store: Forgetful) -> None:
        self.store = store
        self.calls: list[int] = []
        self._program = Program({"program": compile_source(SOURCE).program, "workflow": "t.One"})
        self.held, self.go_on = threading.Event(), threading.Event()
        config = RunnerConfig(http=False, poll_interval_ms=20)
        handlers = Handlers.of({"t.Work": self._work})
        self.service = RunnerService(store, Evaluator(store), config, handlers=handlers)
        self._thread = threading.Thread(target=self.service.start)
        self._thread.start()

    def _work(self, n: int) -> dict[str, Any]:
        self.calls.append(n)
        if n == 0:
            self.held.set()
            assert self.go_on.wait(60)
        return {"m": n + 1}

    def submit(self, n: int) -> WorkflowId:
        """A run that this process will evaluate: it claims its task at birth."""
        return WorkflowId(Evaluator(self.store).submit(self._program, {"n": n}))

    def start_elsewhere(self, n: int) -> WorkflowId:
        """A run that somebody else evaluated: its task is there for whoever claims it."""
        other = SqliteStore(self.store.database.url)
        node = dict(self._program.workflow.ast, name="t.One")
        run = Evaluator(other).execute(node, {"n": n}, self._program.compiled["program"])
        other.close()
        return run.workflow_id

    def end(self) -> None:
        self.go_on.set()
        self.service.stop()
        self._thread.join(60)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    store = Forgetful(f"sqlite:///{tmp_path / 'afl.db'}")
    store.lease_ms = 600_000
    bench = Bench(store)
    yield bench
    bench.end()
    store.close()


@pytest.mark.parametrize("lost", ["claim", "commit", "take"])
def test_a_task_claimed_by_a_lost_reply_is_worked_on(bench: Bench, lost: str) -> None:
    first = bench.submit(0)
    assert bench.held.wait(60)
    setattr(bench.store, f"lose_{lost}", True)
    second = bench.start_elsewhere(1) if lost == "claim" else bench.submit(1)

    def done() -> bool:
        run = bench.store.get_run(second)
        return run is not None and run.state == RunnerState.COMPLETED

    eventually(done, lambda: bench.store.get_tasks_by_workflow(second))
    assert not getattr(bench.store, f"lose_{lost}"), "nothing was lost"
    (task,) = bench.store.get_tasks_by_workflow(second)
    assert (task.state, bench.calls) == (TaskState.COMPLETED, [0, 1])
    assert task.deaths == 0
    running = bench.store.find_tasks(TaskFilter(state=TaskState.RUNNING))
    assert [each.workflow_id for each in running] == [first]
