"""A run that is driven in this process, and what others do to it meanwhile."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from support.eventually import eventually

from afl.language.compiler import compile_source
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.usage import BudgetExceeded
from afl.runtime.program.program import Program
from afl.runtime.stores.sql_store import tasks
from afl.runtime.task_handlers.handler import HandlerContext, Handlers
from afl.runtime.types import WorkflowId

SOURCE = """
namespace t {
    event facet Work(n: Long) => (m: Long)
    workflow W() => (a: Long, b: Long) andThen {
        first = Work(n = 1)
        second = Work(n = first.m)
        yield W(a = first.m, b = second.m)
    }
}
"""


def program() -> Program:
    return Program({"program": compile_source(SOURCE).program, "workflow": "t.W"})


class Scene:
    """A run whose first handler does something to it."""

    def __init__(self, act: Any) -> None:
        self.store = MemoryStore()
        self.evaluator = Evaluator(self.store)
        self.calls = 0
        self._act = act

    def work(self, n: int) -> dict[str, Any]:
        self.calls += 1
        if self.calls == 1:
            self._act(self.store, WorkflowId(self.store.get_runs()[0].workflow_id))
        return {"m": n + 1}

    def runner(self) -> LocalRunner:
        return LocalRunner(self.evaluator, Handlers.of({"t.Work": self.work}))


def test_a_run_that_is_canceled_meanwhile_ends_as_canceled() -> None:
    scene = Scene(lambda store, run: store.cancel_run(run, "enough"))
    with scene.runner() as runner:
        result = runner.run(program())
    assert (result.success, result.status) == (False, ExecutionStatus.ERROR)
    assert "enough" in str(result.error)
    assert scene.calls == 1
    assert [t.state for t in scene.store.get_tasks_by_workflow(result.workflow_id)] == [TaskState.CANCELED]


def test_an_answer_that_comes_while_the_run_is_paused_is_kept() -> None:
    scene = Scene(lambda store, run: store.pause_run(run, "lunch"))
    with scene.runner() as runner:
        result = runner.run(program())
        assert result.status == ExecutionStatus.PAUSED
        run = scene.store.get_run(result.workflow_id)
        assert run is not None and (run.state, run.reason) == (RunnerState.PAUSED, "lunch")
        assert scene.store.unpause_run(result.workflow_id)
        ended = runner.resume(result.workflow_id)
    assert ended.outputs == {"a": 2, "b": 3}
    assert scene.calls == 2


def test_a_run_without_budget_pauses_and_goes_on_later() -> None:
    def spend(store: MemoryStore, run: WorkflowId) -> None:
        raise BudgetExceeded(run, "budget of 1 USD is used up")

    scene = Scene(spend)
    with scene.runner() as runner:
        result = runner.run(program())
        assert result.status == ExecutionStatus.PAUSED
        run = scene.store.get_run(result.workflow_id)
        assert run is not None and (run.state, run.reason) == (
            RunnerState.PAUSED,
            "budget of 1 USD is used up",
        )
        task = scene.store.get_tasks_by_workflow(result.workflow_id)[0]
        assert (task.state, task.failures, task.deliveries) == (TaskState.PENDING, 0, 0)
        scene.store.unpause_run(result.workflow_id)
    with scene.runner() as runner:
        assert runner.resume(result.workflow_id).outputs == {"a": 2, "b": 3}


def test_a_run_that_was_only_shaken_off_is_taken_up_again() -> None:
    def shake(store: MemoryStore, run: WorkflowId) -> None:
        store.pause_run(run, "lunch")
        store.unpause_run(run)

    scene = Scene(shake)
    with scene.runner() as runner:
        assert runner.run(program()).outputs == {"a": 2, "b": 3}
    assert scene.calls == 2


class LateStore(MemoryStore):
    """Another process finds first that the time of a task is up, and is killed before it decides what follows."""

    def requeue(self, task: TaskDefinition, delay_ms: int, error: dict[str, Any]) -> bool:
        if task.owner:  # who decides about a task that was taken away has none
            eventually(lambda: self.reclaim() == 1)
        return super().requeue(task, delay_ms, error)


def test_a_run_whose_task_another_process_found_late_goes_on() -> None:
    source = SOURCE.replace("(m: Long)\n", "(m: Long) with Timeout(20) with Retry(2, backoff = 1)\n", 1)
    asked = []

    def work(n: int, context: HandlerContext) -> dict[str, Any]:
        asked.append(context.attempt)
        if len(asked) == 1:
            context.cancellation.wait(30)
        return {"m": n + 1}

    with (
        closing(LateStore()) as store,
        LocalRunner(Evaluator(store), Handlers.of({"t.Work": work})) as runner,
    ):
        result = runner.run(Program({"program": compile_source(source).program, "workflow": "t.W"}))
    assert result.outputs == {"a": 2, "b": 3}
    assert asked == [1, 2, 1]


def test_a_task_of_another_run_that_nobody_starts_does_not_keep_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "RATE_PATIENCE_MS", 1)
    rated = SOURCE.replace("=> (m: Long)", '=> (m: Long) with Rate("api", perMinute = 60000)')
    compiled = Program({"program": compile_source(rated).program, "workflow": "t.W"})
    scene = Scene(lambda store, run: None)
    left_behind = scene.evaluator.resume(scene.evaluator.submit(compiled)).workflow_id
    (task,) = scene.store.get_tasks_by_workflow(left_behind)
    assert (task.state, task.hold) == (TaskState.PENDING, "")
    with scene.runner() as runner:
        assert runner.run(compiled).outputs == {"a": 2, "b": 3}
