"""Steps whose work goes on elsewhere: what the workflow says, what the other side answers, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.runtime.entities import RunnerState, TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import TaskFilter
from afl.runtime.program.program import Program
from afl.runtime.recovery import sweep
from afl.runtime.task_handlers.elsewhere import Elsewhere, earlier_ids, elsewhere_id
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import StepId, WorkflowId

SOURCE = """namespace t {{
    event facet Ask(q: String) => (answer: String, sure: Boolean = true){signature}
    workflow W(q: String, who: String = "researcher", minutes: Double = 0.0) => (answer: String) andThen {{
        a = Ask($.q){call}
        yield W(answer = a.answer)
    }}
}}
"""
AGENT = ' with Agent("researcher", instructions = "be brief")'


@pytest.fixture
def evaluator() -> Any:
    store = MemoryStore()
    yield Evaluator(store)
    store.close()


def program_of(call: str = "", signature: str = "") -> Program:
    return choose_workflow(compile_source(SOURCE.format(call=call, signature=signature)))


def begin(evaluator: Evaluator, call: str = "", signature: str = "", **inputs: Any) -> ExecutionResult:
    run = evaluator.submit(program_of(call, signature), {"q": "why?", **inputs})
    return evaluator.resume(run)


def only_task(evaluator: Evaluator, result: ExecutionResult) -> TaskDefinition:
    return evaluator.persistence.get_tasks_by_workflow(result.workflow_id)[-1]


def handed_out(evaluator: Evaluator, call: str = AGENT, **inputs: Any) -> TaskDefinition:
    return only_task(evaluator, begin(evaluator, call, **inputs))


def end_of(evaluator: Evaluator, task: TaskDefinition) -> ExecutionResult:
    return evaluator.resume(WorkflowId(task.workflow_id))


@pytest.mark.parametrize(
    ("mixin", "via", "bridge"),
    [
        ('Agent("x")', "agent:x", {}),
        ('Agent($.who, channel = "c")', "agent:researcher", {"channel": "c"}),
        ('Fleet("etl.daily")', "fleet:etl.daily", {}),
        ('Message("x", priority = 7)', "message:x", {"priority": 7}),
        ('Human("x")', "human:x", {}),
        ('sys.Human("x", title = "T")', "human:x", {"title": "T"}),
    ],
)
def test_the_mixin_says_where(evaluator: Evaluator, mixin: str, via: str, bridge: dict[str, Any]) -> None:
    for call, signature in (
        (f" with {mixin}", ""),
        ("", f" with {mixin.replace('$.who', repr_text('researcher'))}"),
    ):
        task = only_task(evaluator, begin(evaluator, call, signature))
        assert (task.via, task.bridge, task.hold) == (via, bridge, TaskHold.ELSEWHERE)
        assert (task.name, task.params, task.state) == ("t.Ask", {"q": "why?"}, TaskState.PENDING)


def repr_text(text: str) -> str:
    return f'"{text}"'


def test_a_mixin_at_the_call_counts_before_the_one_in_the_signature(evaluator: Evaluator) -> None:
    task = only_task(evaluator, begin(evaluator, ' with Human("boss")', AGENT))
    assert (task.via, task.bridge) == ("human:boss", {})


def test_patience_is_the_time_to_the_next_one(evaluator: Evaluator) -> None:
    task = handed_out(
        evaluator, ' with Human("x", escalate_to = "y", escalate_minutes = $.minutes)', minutes=0.5
    )
    assert task.patience_ms == 30_000
    assert task.bridge == {"escalate_to": "y", "escalate_minutes": 0.5}
    assert 0 < task.lease_until - evaluator.persistence.now() <= 30_000


@pytest.mark.parametrize(
    ("call", "inputs", "problem"),
    [
        (" with Agent($.who)", {"who": ""}, "Agent: the name is empty"),
        (
            ' with Human("x", escalate_to = "y", escalate_minutes = $.minutes)',
            {"minutes": -1.0},
            "Human: escalate_minutes is -1.0; expected at least 0",
        ),
        (
            ' with Human("x", escalate_to = $.who, escalate_minutes = 5)',
            {"who": ""},
            "Human: escalate_to and escalate_minutes belong together",
        ),
    ],
)
def test_what_makes_no_sense_fails_the_step(
    evaluator: Evaluator, call: str, inputs: dict[str, Any], problem: str
) -> None:
    result = begin(evaluator, call, **inputs)
    assert result.error is not None
    assert problem in str(result.error)
    assert evaluator.persistence.get_tasks_by_workflow(result.workflow_id) == []


def test_a_handler_of_that_name_is_not_asked(evaluator: Evaluator) -> None:
    def never(q: str) -> dict[str, str]:
        raise AssertionError("it is done elsewhere")

    with LocalRunner(evaluator, Handlers.of({"t.Ask": never})) as runner:
        result = runner.run(program_of(AGENT), {"q": "why?"})
    assert result.status == "PAUSED"
    assert only_task(evaluator, result).hold == TaskHold.ELSEWHERE


# -- the other side answers -----------------------------------------------------------------------------------


def test_the_answer_continues_the_step(evaluator: Evaluator) -> None:
    task = handed_out(evaluator)
    assert Elsewhere(evaluator).complete(task, {"answer": "because"})
    assert end_of(evaluator, task).outputs == {"answer": "because"}
    assert not Elsewhere(evaluator).complete(task, {"answer": "again"})
    assert evaluator.persistence.ended_elsewhere("agent") == []


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"answer": 7}, "return field 'answer': expected String, got"),
        ({"sure": True}, "the result lacks answer"),
        (None, "the result lacks answer"),
    ],
)
def test_an_answer_that_does_not_fit_fails_the_step(
    evaluator: Evaluator, result: dict[str, Any] | None, problem: str
) -> None:
    task = handed_out(evaluator, AGENT + " with Retry(3)")
    assert Elsewhere(evaluator).complete(task, result)
    ended = evaluator.persistence.get_task(task.uuid)
    assert ended is not None
    assert (ended.state, ended.hold, (ended.error or {})["type"]) == (TaskState.FAILED, "", "ResultError")
    error = end_of(evaluator, task).error
    assert problem in str(error)


def test_a_failure_is_tried_again_under_another_id(evaluator: Evaluator) -> None:
    task = handed_out(evaluator, AGENT + " with Retry(3, backoff = 0)")
    bridge, seen = Elsewhere(evaluator), []
    for _ in range(3):
        now = evaluator.persistence.get_task(task.uuid)
        assert now is not None
        seen.append(elsewhere_id(now))
        assert earlier_ids(now) == seen[-2::-1]
        assert bridge.fail(now, "it was lost", "Lost")
        assert not bridge.fail(now, "it was lost", "Lost")
    assert seen == [task.uuid, f"{task.uuid}-1", f"{task.uuid}-2"]
    result = end_of(evaluator, task)
    assert result.error is not None
    assert "it was lost" in str(result.error)


def test_only_what_the_workflow_names_is_tried_again(evaluator: Evaluator) -> None:
    task = handed_out(evaluator, AGENT + ' with Retry(3, on = ["Lost"])')
    assert Elsewhere(evaluator).fail(task, "no", "Refused")
    assert not end_of(evaluator, task).success


def test_an_answer_to_a_step_that_went_on_is_ignored(evaluator: Evaluator) -> None:
    task = handed_out(evaluator)
    assert evaluator.continue_step(StepId(task.step_id), {"answer": "by hand"})
    assert [each.uuid for each in evaluator.persistence.ended_elsewhere("agent")] == [task.uuid]
    evaluator.resume(WorkflowId(task.workflow_id))
    assert not Elsewhere(evaluator).complete(task, {"answer": "late"})
    assert evaluator.persistence.ended_elsewhere("agent") == []  # it ended by itself
    assert end_of(evaluator, task).outputs == {"answer": "by hand"}


def test_a_task_that_nobody_waits_for_is_closed(evaluator: Evaluator) -> None:
    task = handed_out(evaluator)
    step = evaluator.persistence.get_step(StepId(task.step_id))
    assert step is not None
    step.mark_completed()
    evaluator.persistence.save_step(step)
    assert not Elsewhere(evaluator).fail(task, "no")
    closed = evaluator.persistence.get_task(task.uuid)
    assert closed is not None
    assert (closed.state, closed.hold) == (TaskState.IGNORED, "")


# -- time, death, retry by an operator ------------------------------------------------------------------------


def late(evaluator: Evaluator, task: TaskDefinition) -> None:
    """Its time is up, and somebody sweeps."""
    stored = evaluator.persistence.get_task(task.uuid)
    assert stored is not None
    stored.deadline = 1
    evaluator.persistence.save_task(stored)
    assert sweep.reclaim(evaluator) == 1


def test_a_timeout_is_judged_as_ever(evaluator: Evaluator) -> None:
    task = handed_out(evaluator, AGENT + " with Timeout(hours = 1)")
    late(evaluator, task)
    assert [each.uuid for each in evaluator.persistence.ended_elsewhere("agent")] == [task.uuid]
    error = end_of(evaluator, task).error
    assert "not done after 3600000 ms" in str(error)


def test_a_timeout_is_tried_again_and_the_old_attempt_is_known(evaluator: Evaluator) -> None:
    task = handed_out(
        evaluator, AGENT + ' with Timeout(hours = 1) with Retry(2, backoff = 0, on = ["Timeout"])'
    )
    late(evaluator, task)
    again = evaluator.persistence.get_task(task.uuid)
    assert again is not None
    assert (again.hold, elsewhere_id(again), earlier_ids(again)) == (
        TaskHold.ELSEWHERE,
        f"{task.uuid}-1",
        [task.uuid],
    )
    assert not Elsewhere(evaluator).complete(task, {"answer": "too late"})
    assert Elsewhere(evaluator).complete(again, {"answer": "in time"})
    assert end_of(evaluator, task).outputs == {"answer": "in time"}


def test_an_operator_who_retries_makes_another_task(evaluator: Evaluator) -> None:
    task = handed_out(evaluator)
    Elsewhere(evaluator).fail(task, "no")
    assert end_of(evaluator, task).error is not None
    evaluator.retry(WorkflowId(task.workflow_id))
    result = end_of(evaluator, task)
    again = only_task(evaluator, result)
    assert again.uuid != task.uuid
    assert (again.via, again.hold) == (task.via, TaskHold.ELSEWHERE)


def test_a_lost_task_is_made_anew_with_its_place(evaluator: Evaluator) -> None:
    task = handed_out(evaluator, AGENT + " with Timeout(hours = 1)")
    store = evaluator.persistence
    gone = store.get_task(task.uuid)
    assert gone is not None
    gone.state = TaskState.IGNORED
    store.save_task(gone)
    assert sweep.continue_lost_steps(evaluator) == 1
    (new,) = store.find_tasks(TaskFilter(hold=TaskHold.ELSEWHERE, via="agent"))
    assert (new.via, new.bridge, new.data) == (task.via, task.bridge, task.data)
    assert 0 < new.deadline - store.now() <= 3_600_000
    assert Elsewhere(evaluator).complete(new, {"answer": "found"})
    assert end_of(evaluator, new).outputs == {"answer": "found"}


def test_a_task_that_was_handed_over_is_one_of_them(evaluator: Evaluator) -> None:
    result = begin(evaluator)
    store = evaluator.persistence
    claimed = store.claim_task(["t.Ask"])
    assert claimed is not None
    assert store.hand_over(claimed, "agent:researcher")
    (task,) = store.find_tasks(TaskFilter(hold=TaskHold.ELSEWHERE, via="agent"))
    assert Elsewhere(evaluator).complete(task, {"answer": "because"})
    assert evaluator.resume(result.workflow_id).outputs == {"answer": "because"}
    run = store.get_run(result.workflow_id)
    assert run is not None
    assert run.state == RunnerState.COMPLETED


def test_a_turn_that_waits_elsewhere_is_not_waited_for_here(evaluator: Evaluator) -> None:
    """A handler of that name would never be called, so nobody looks whether its turn has come."""
    source = """namespace t {
        event facet Ask(q: String) => (answer: String)
        workflow W(q: String) andThen {
            a = Ask($.q) with Human("x") with Concurrency("k", limit = 1)
            b = Ask($.q) with Human("x") with Concurrency("k", limit = 1)
        }
    }"""
    program = choose_workflow(compile_source(source))
    with LocalRunner(evaluator, Handlers.of({"t.Ask": lambda q: {"answer": q}})) as runner:
        result = runner.run(program, {"q": "why?"})
    assert result.status == "PAUSED"
    holds = {task.hold for task in evaluator.persistence.get_tasks_by_workflow(result.workflow_id)}
    assert holds == {TaskHold.ELSEWHERE, TaskHold.CONCURRENCY}
