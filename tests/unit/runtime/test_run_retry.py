"""Trying again what failed: only that begins anew, what is above waits for it again, what is done stays done."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.agents import begin, run_of, submit
from support.case import Case
from support.judging import TIGHT, Trial, unworded
from support.properties import tries
from support.random_workflows import cases

from afl.kernel.errors import InputError
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.states import StepState
from afl.runtime.types import StepId, WorkflowId

SOURCE = """
event facet Work(n: Long) => (m: Long)
facet Inner(n: Long) => (m: Long) andThen {
    a = Work($.n)
    b = Work(a.m)
    yield Inner(m = b.m)
}
workflow Chain(n: Long) => (m: Long) andThen {
    a = Work($.n)
    b = Work(a.m)
    c = Work(b.m)
    yield Chain(m = c.m)
}
workflow Each(list: [Long]) => (all: [Long]) andThen foreach n in $.list {
    a = Work(n)
    yield Each(all = [a.m])
}
workflow Nested(n: Long) => (m: Long) andThen {
    outer = Inner($.n) andThen {
        x = Inner($.n + 10)
        y = Inner(x.m)
        yield Inner(m = y.m)
    }
    beside = Work(100)
    yield Nested(m = outer.m + beside.m)
}
workflow Caught(n: Long) => (m: Long) andThen {
    a = Work($.n) catch {
        b = Work(50)
        yield Work(m = b.m)
    }
    yield Caught(m = a.m)
}
workflow Declared(n: Long) => (m: Long) andThen {
    a = Work($.n)
    yield Declared(m = a.m)
} catch {
    b = Work(60)
    yield Declared(m = b.m)
}
facet Mixed(n: Long) => (m: Long) andThen {
    a = Work($.n)
    yield Mixed(m = a.m)
}
workflow Mixing(n: Long) => (m: Long) with Mixed(n = 7) as mix andThen {
    a = Work($.n)
    yield Mixing(m = a.m + $.mix.m)
}
workflow Bad(n: Long) => (m: Long) andThen {
    a = Work($.n)
    b = Work(10 % (a.m - a.m))
    yield Bad(m = b.m)
}
"""


class Workshop:
    """Agents that refuse some numbers, and add one to the others."""

    def __init__(self, store: PersistenceAPI) -> None:
        self.store = store
        self.refused: set[int] = set()
        self.done: Counter[int] = Counter()

    def work(self, payload: dict[str, Any]) -> dict[str, Any]:
        n = payload["n"]
        self.done[n] += 1
        if n in self.refused:
            raise ValueError(f"{n} is refused")
        return {"m": n + 1}

    def begin(self, workflow: str, **inputs: Any) -> WorkflowId:
        run = begin(self.store, workflow, inputs, SOURCE)
        self.go_on()
        return run

    def go_on(self) -> None:
        poller = AgentPoller(self.store, Evaluator(self.store), AgentPollerConfig(max_concurrent=100))
        poller.register("Work", self.work)
        while poller.poll_once():
            pass

    def retry(self, run: WorkflowId, step: str | None = None) -> int:
        tried = Evaluator(self.store).retry(run, StepId(f"{run}/{step}") if step else None)
        Evaluator(self.store).resume(run)
        self.go_on()
        return tried

    def state(self, run: WorkflowId) -> str:
        return run_of(self.store, run).state

    def outputs(self, run: WorkflowId) -> dict[str, Any]:
        assert self.state(run) == RunnerState.COMPLETED, run_of(self.store, run).error
        return run_of(self.store, run).outputs


@pytest.fixture
def shop(store: MemoryStore) -> Workshop:
    return Workshop(store)


def test_a_failed_step_begins_anew_and_what_is_done_stays_done(shop: Workshop) -> None:
    shop.refused = {2}
    run = shop.begin("Chain", n=1)
    assert shop.state(run) == RunnerState.FAILED
    shop.refused = set()
    assert shop.retry(run) == 1
    assert shop.outputs(run) == {"m": 4}
    assert shop.done == {1: 1, 2: 2, 3: 1}


def test_the_record_of_the_run_is_that_of_a_running_one(shop: Workshop) -> None:
    shop.refused = {1}
    run = shop.begin("Chain", n=1)
    failed = run_of(shop.store, run)
    assert failed.error is not None
    assert failed.ended > 0
    Evaluator(shop.store).retry(run)
    again = run_of(shop.store, run)
    assert (again.state, again.error, again.ended, again.outputs) == (RunnerState.RUNNING, None, 0, {})
    assert run in shop.store.get_due_runs()


def test_the_failed_task_stays_and_a_new_one_is_made(shop: Workshop) -> None:
    shop.refused = {1}
    run = shop.begin("Chain", n=1)
    shop.refused = set()
    shop.retry(run)
    tasks = shop.store.get_tasks_by_workflow(run)
    assert [task.state for task in tasks] == [TaskState.FAILED, *[TaskState.COMPLETED] * 3]
    assert tasks[0].step_id == tasks[1].step_id
    assert tasks[0].uuid != tasks[1].uuid


def test_it_may_fail_and_be_retried_again_and_again(shop: Workshop) -> None:
    shop.refused = {1}
    run = shop.begin("Chain", n=1)
    for _ in range(3):
        assert shop.retry(run) == 1
        assert shop.state(run) == RunnerState.FAILED
    shop.refused = set()
    shop.retry(run)
    assert shop.outputs(run) == {"m": 4}
    assert shop.done[1] == 5


def test_failed_elements_of_a_foreach_begin_anew(shop: Workshop) -> None:
    shop.refused = {2, 4}
    run = shop.begin("Each", list=[1, 2, 3, 4, 5])
    assert shop.state(run) == RunnerState.FAILED
    shop.refused = set()
    assert shop.retry(run) == 2
    assert shop.outputs(run) == {"all": [2, 3, 4, 5, 6]}
    assert shop.done == {1: 1, 2: 2, 3: 1, 4: 2, 5: 1}


def test_one_element_alone(shop: Workshop) -> None:
    shop.refused = {2, 4}
    run = shop.begin("Each", list=[1, 2, 3, 4, 5])
    failed = [task.step_id for task in shop.store.get_tasks_by_workflow(run) if task.state == "failed"]
    shop.refused = {4}
    assert shop.retry(run, failed[0].removeprefix(f"{run}/")) == 1
    assert shop.state(run) == RunnerState.FAILED
    assert shop.done == {1: 1, 2: 2, 3: 1, 4: 1, 5: 1}
    shop.refused = set()
    assert shop.retry(run) == 1
    assert shop.outputs(run) == {"all": [2, 3, 4, 5, 6]}


@pytest.mark.parametrize("refused", [11, 12, 13, 14, 100])
def test_nested_facets_and_inline_bodies(shop: Workshop, refused: int) -> None:
    run = shop.begin("Nested", n=1)
    expected = shop.outputs(run)
    shop.refused = {refused}
    failing = shop.begin("Nested", n=1)
    assert shop.state(failing) == RunnerState.FAILED
    shop.refused = set()
    assert shop.retry(failing) == 1
    assert shop.outputs(failing) == expected


@pytest.mark.parametrize("workflow", ["Caught", "Declared"])
def test_a_failure_in_a_catch_block(shop: Workshop, workflow: str) -> None:
    shop.refused = {1, 50, 60}
    run = shop.begin(workflow, n=1)
    assert shop.state(run) == RunnerState.FAILED
    shop.refused = {1}
    assert shop.retry(run) == 1
    assert shop.outputs(run) == {"m": 51 if workflow == "Caught" else 61}
    assert shop.done[1] == 1, "what was caught is not tried again"


def test_a_failure_that_was_caught_is_no_failure(shop: Workshop) -> None:
    shop.refused = {1}
    run = shop.begin("Caught", n=1)
    assert shop.outputs(run) == {"m": 51}
    with pytest.raises(InputError, match="is completed; only a failed or canceled run can be retried"):
        Evaluator(shop.store).retry(run)


def test_what_was_caught_elsewhere_in_a_failed_run_is_not_tried_again(shop: Workshop) -> None:
    source = (
        SOURCE
        + """
    workflow Both(n: Long) => (m: Long) andThen {
        good = Inner(1) andThen {
            x = Work(21)
            yield Inner(m = x.m)
        } catch {
            b = Work(50)
            yield Inner(m = b.m)
        }
        bad = Work($.n)
        yield Both(m = good.m + bad.m)
    }
    """
    )
    shop.refused = {5, 21}
    run = begin(shop.store, "Both", {"n": 5}, source)
    shop.go_on()
    assert shop.state(run) == RunnerState.FAILED
    shop.refused = {21}
    assert shop.retry(run) == 1
    assert shop.outputs(run) == {"m": 57}
    assert shop.done == {21: 1, 50: 1, 5: 2}


@pytest.mark.parametrize("refused", [1, 7])
def test_a_failure_in_a_mixin(shop: Workshop, refused: int) -> None:
    shop.refused = {refused}
    run = shop.begin("Mixing", n=1)
    assert shop.state(run) == RunnerState.FAILED
    shop.refused = set()
    assert shop.retry(run) == 1
    assert shop.outputs(run) == {"m": 10}


def test_a_failure_of_the_engine_is_tried_again_too(shop: Workshop) -> None:
    run = shop.begin("Bad", n=1)
    assert "Division by zero" in str(run_of(shop.store, run).error)
    assert shop.retry(run) == 1
    assert shop.state(run) == RunnerState.FAILED
    assert shop.done == {1: 1}


def test_a_canceled_run_goes_on_where_it_was(shop: Workshop) -> None:
    run = begin(shop.store, "Chain", {"n": 1}, SOURCE)
    poller = AgentPoller(shop.store, Evaluator(shop.store), AgentPollerConfig(max_concurrent=1))
    poller.register("Work", shop.work)
    assert poller.poll_once() == 1
    assert shop.store.cancel_run(run, "enough")
    assert shop.retry(run) == 1
    assert shop.outputs(run) == {"m": 4}
    assert shop.done == {1: 1, 2: 1, 3: 1}
    assert run_of(shop.store, run).reason == ""


def test_a_run_canceled_as_it_enters_its_catch_block_goes_on_there(shop: Workshop) -> None:
    run = begin(shop.store, "Declared", {"n": 1}, SOURCE)
    Evaluator(shop.store).fail_step(StepId(f"{run}/0/a"), "1 is refused")
    root = shop.store.get_step(StepId(run))
    while root is not None and root.state != StepState.STATEMENT_CATCH_BEGIN:
        Evaluator(shop.store, max_iterations=1).resume(run)
        root = shop.store.get_step(StepId(run))
    shop.store.cancel_run(run, "enough")
    assert shop.retry(run) == 1
    assert shop.outputs(run) == {"m": 61}
    assert shop.done == {60: 1}


def test_a_run_canceled_before_it_began_begins(shop: Workshop) -> None:
    run = submit(shop.store, "Chain", {"n": 1}, SOURCE)
    assert shop.store.cancel_run(run, "enough")
    assert shop.retry(run) >= 1
    assert shop.outputs(run) == {"m": 4}


@pytest.mark.parametrize(
    ("step", "message"),
    [("nobody", "no failed step in"), ("0/c", "no failed step in")],
)
def test_a_step_that_did_not_fail_is_refused(shop: Workshop, step: str, message: str) -> None:
    shop.refused = {1}
    run = shop.begin("Chain", n=1)
    before = run_of(shop.store, run)
    with pytest.raises(InputError, match=message):
        Evaluator(shop.store).retry(run, StepId(f"{run}/{step}"))
    assert run_of(shop.store, run) == before


def test_a_run_that_is_not_there_or_not_over_is_refused(shop: Workshop) -> None:
    with pytest.raises(InputError, match="there is no run nobody"):
        Evaluator(shop.store).retry(WorkflowId("nobody"))
    run = begin(shop.store, "Chain", {"n": 1}, SOURCE)
    with pytest.raises(InputError, match="is running; only a failed or canceled"):
        Evaluator(shop.store).retry(run)
    assert shop.store.pause_run(run, "lunch")
    with pytest.raises(InputError, match="is paused; only a failed or canceled"):
        Evaluator(shop.store).retry(run)


# -- random programs ------------------------------------------------------------------------------------------


class Once:
    """Agents as the trial has them, but the n-th piece of work fails the first time."""

    def __init__(self, trial: Trial, failing: int) -> None:
        self._trial = trial
        self._failing = failing
        self.failed = False

    def work(self, facet: str, payload: dict[str, Any]) -> dict[str, Any]:
        self._failing -= 1
        if self._failing == 0:
            self.failed = True
            raise ConnectionError("for once")
        return self._trial.answer(facet, payload)


def complete(trial: Trial, store: PersistenceAPI, agents: Once, pace: Pace) -> WorkflowId:
    node = dict(trial.program.workflow.ast, name=trial.case.workflow)
    evaluator = Evaluator(store, pace=pace)
    result = evaluator.execute(node, trial.case.inputs, trial.program.compiled["program"])
    finish(result.workflow_id, store, agents, pace)
    return result.workflow_id


def finish(run: WorkflowId, store: PersistenceAPI, agents: Once, pace: Pace) -> None:
    evaluator = Evaluator(store, pace=pace)
    while evaluator.resume(run).status == ExecutionStatus.PAUSED:
        for task in store.get_tasks_by_workflow(run):
            if task.state == TaskState.PENDING:
                answer(evaluator, agents, task.name, task.params, StepId(task.step_id))
                break


def answer(evaluator: Evaluator, agents: Once, facet: str, payload: dict[str, Any], step: StepId) -> None:
    try:
        result = agents.work(facet, payload)
    except Exception as error:
        evaluator.fail_step(step, str(error))
    else:
        evaluator.continue_step(step, result)


def check(case: Case, failing: int, pace: Pace) -> None:
    trial = Trial.of(case)
    if trial.verdict.failure is not None:
        return
    store = MemoryStore()
    try:
        agents = Once(trial, failing)
        run = complete(trial, store, agents, pace)
        found = run_of(store, run)
        assert agents.failed or found.state == RunnerState.COMPLETED
        # What a catch block has dealt with stays so, and may have led anywhere.
        caught = any("!" in step.id for step in store.get_steps_by_workflow(run))
        if found.state == RunnerState.FAILED and not caught:
            assert Evaluator(store).retry(run) >= 1
            finish(run, store, agents, pace)
            found = run_of(store, run)
            assert found.state == RunnerState.COMPLETED, found.error
            assert unworded(found.outputs) == unworded(trial.verdict.outputs)
    finally:
        store.close()


@tries(60, deep=250)
@given(cases(alone=True), st.integers(1, 12), st.sampled_from([Pace(), TIGHT]))
def test_random_programs_end_as_if_nothing_had_failed(case: Case, failing: int, pace: Pace) -> None:
    check(case, failing, pace)
