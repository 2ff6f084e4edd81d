"""`afl:execute` and `afl:resume`: what they do, and every way in which they fail."""

from __future__ import annotations

from typing import Any

import pytest
from support.agents import DOUBLE, Gate, Recorder, begin, double, ended, only_task, received, run_of, serving

from afl.kernel.errors import StoreUnavailable
from afl.runtime.agent import ToolRegistry
from afl.runtime.entities import (
    FlowDefinition,
    FlowIdentity,
    RunnerDefinition,
    RunnerState,
    SourceText,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)
from afl.runtime.evaluator import Evaluator
from afl.runtime.events import EventManager
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner.service import RunnerConfig, RunnerService
from afl.runtime.runner.system_tasks import EXECUTE_TASK_NAME, RESUME_TASK_NAME
from afl.runtime.types import StepId, WorkflowId

AMBIGUOUS = """
namespace a { workflow W() andThen { } }
namespace b { workflow W() andThen { } }
"""


def runner_on(store: PersistenceAPI, tool: Any = double) -> RunnerService:
    registry = ToolRegistry()
    if tool is not None:
        registry.register("Double", tool)
    config = RunnerConfig(http=False, poll_interval_ms=20)
    return RunnerService(store, Evaluator(store), config, registry)


def publish(store: MemoryStore, *sources: str, uuid: str = "f1") -> None:
    compiled = [SourceText(f"{number}.afl", text) for number, text in enumerate(sources)]
    store.save_flow(FlowDefinition(uuid, FlowIdentity("flow", "/flow", uuid), compiled_sources=compiled))


def ask(store: MemoryStore, name: str, data: dict[str, Any] | None, **fields: Any) -> TaskDefinition:
    given = {"uuid": "t1", "runner_id": "", "workflow_id": "", "flow_id": "", "step_id": "", **fields}
    task = TaskDefinition(name=name, data=data, **given)
    store.save_task(task)
    return task


def execute(store: MemoryStore, **data: Any) -> None:
    given = {"flow_id": "f1", "workflow_name": "Once", "inputs": {"n": 3}, **data}
    ask(store, EXECUTE_TASK_NAME, {name: value for name, value in given.items() if value is not None})


def task_of(store: MemoryStore, uuid: str = "t1") -> TaskDefinition:
    task = store.get_task(uuid)
    assert task is not None
    return task


def keep_record(store: MemoryStore) -> None:
    workflow = WorkflowDefinition("w", "Once", "n", "fc", "f1", "start", "1.0")
    store.save_runner(RunnerDefinition("r1", "", workflow))


def record(store: MemoryStore) -> RunnerDefinition:
    runner = store.get_runner("r1")
    assert runner is not None
    return runner


# -- afl:execute ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Once", "ns.Once"])
def test_execute_starts_a_run_of_a_stored_flow(store: MemoryStore, name: str) -> None:
    publish(store, DOUBLE)
    execute(store, workflow_name=name)
    assert runner_on(store).run_once() == 2
    task = task_of(store)
    assert task.state == TaskState.COMPLETED
    assert task.result is not None
    run = run_of(store, task.result["workflow_id"])
    assert (run.outputs, run.flow_id, run.workflow_name) == ({"m": 6}, "f1", "ns.Once")
    assert task.result["status"] == RunnerState.RUNNING


def test_a_run_that_needs_nobody_is_complete_at_once(store: MemoryStore) -> None:
    publish(store, "workflow Idle(n: Long) => (m: Long) andThen { yield Idle(m = $.n + 1) }")
    execute(store, workflow_name="Idle")
    assert runner_on(store).run_once() == 1
    result = task_of(store).result
    assert result is not None
    assert result["status"] == RunnerState.COMPLETED
    assert run_of(store, result["workflow_id"]).outputs == {"m": 4}


def test_the_run_joins_the_list_of_the_task(store: MemoryStore) -> None:
    publish(store, DOUBLE)
    ask(
        store,
        EXECUTE_TASK_NAME,
        {"flow_id": "f1", "workflow_name": "Once", "inputs": {"n": 1}},
        task_list_name="gpu",
    )
    registry = ToolRegistry()
    config = RunnerConfig(http=False, task_list="gpu")
    assert RunnerService(store, Evaluator(store), config, registry).run_once() == 1
    result = task_of(store).result
    assert result is not None
    assert only_task(store, result["workflow_id"]).task_list_name == "gpu"


def test_the_runner_record_follows_its_run_to_the_end(store: MemoryStore) -> None:
    publish(store, DOUBLE)
    keep_record(store)
    execute(store, runner_id="r1")
    recorder, gate = Recorder(store), Gate()
    with serving(runner_on(recorder.api, gate), recorder):
        gate.called()
        running = record(store)
        assert running.state == RunnerState.RUNNING
        assert running.start_time > 0
        assert running.end_time == 0
        gate.open()
        ended(store, running.workflow_id)
    over = record(store)
    assert over.state == RunnerState.COMPLETED
    assert over.end_time >= over.start_time
    assert over.duration == over.end_time - over.start_time
    assert run_of(store, over.workflow_id).runner_id == "r1"


def test_the_record_of_a_failed_run_is_failed(store: MemoryStore) -> None:
    def broken(payload: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no")

    publish(store, DOUBLE)
    keep_record(store)
    execute(store, runner_id="r1")
    runner_on(store, broken).run_once()
    assert record(store).state == RunnerState.FAILED
    assert task_of(store).state == TaskState.COMPLETED  # to start the run was all that was asked


def test_without_a_runner_record_there_is_nothing_to_follow(store: MemoryStore) -> None:
    publish(store, DOUBLE)
    execute(store, runner_id="gone")
    runner_on(store).run_once()
    assert task_of(store).state == TaskState.COMPLETED


def test_a_task_delivered_again_starts_no_second_run(store: MemoryStore) -> None:
    publish(store, DOUBLE)
    execute(store)
    recorder = Recorder(store)
    recorder.fail("close_tasks", StoreUnavailable("the runner dies here"))
    with pytest.raises(StoreUnavailable):
        runner_on(recorder.api).run_once()
    store.release_tasks(store.owner_id, died=True)
    runner_on(store).run_once()
    assert task_of(store).state == TaskState.COMPLETED
    assert task_of(store).deliveries == 2
    assert len(store.get_runs()) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"flow_id": "f9"}, "Flow 'f9' not found"),
        ({"flow_id": None}, "Flow '' not found"),
        ({"flow_id": "empty"}, "Flow 'empty' has no compiled sources"),
        ({"workflow_name": "Nope"}, "Workflow 'Nope' not found in flow 'f1'"),
        ({"workflow_name": None}, "Workflow '' not found in flow 'f1'"),
        ({"workflow_name": "other.Once"}, "Workflow 'other.Once' not found in flow 'f1'"),
        ({"inputs": {"n": "three"}}, "n"),
        ({"inputs": {}}, "n"),
        ({"inputs": {"n": 1, "x": 2}}, "x"),
        ({"flow_id": "broken"}, "error["),
        ({"flow_id": "twice", "workflow_name": "W"}, "Workflow 'W'"),
        ({"inputs": "three"}, "inputs"),
    ],
)
def test_what_cannot_be_started_fails_with_the_reason(
    store: MemoryStore, data: dict[str, Any], message: str
) -> None:
    publish(store, DOUBLE)
    publish(store, uuid="empty")
    publish(store, "workflow {", uuid="broken")
    publish(store, AMBIGUOUS, uuid="twice")
    keep_record(store)
    execute(store, runner_id="r1", **data)
    service = runner_on(store)
    assert service.run_once() == 1
    task = task_of(store)
    assert task.state == TaskState.FAILED
    assert task.error is not None
    assert message in task.error["message"]
    assert record(store).state == RunnerState.FAILED
    assert record(store).end_time > 0
    assert store.get_runs() == []
    assert service.status()["handled"]["afl:execute"] == {"handled": 0, "not_handled": 1}


def test_a_task_without_data_fails_too(store: MemoryStore) -> None:
    ask(store, EXECUTE_TASK_NAME, None)
    runner_on(store).run_once()
    assert task_of(store).error == {"message": "Flow '' not found", "type": "InputError"}


def test_a_service_that_runs_takes_them_as_they_come(store: MemoryStore) -> None:
    publish(store, DOUBLE)
    recorder = Recorder(store)
    with serving(runner_on(recorder.api), recorder):
        for number in range(5):
            ask(
                store,
                EXECUTE_TASK_NAME,
                {"flow_id": "f1", "workflow_name": "Twice", "inputs": {"n": number}},
                uuid=f"t{number}",
            )
        for number in range(5):
            started = received(store, "nothing", lambda number=number: task_of(store, f"t{number}").result)  # type: ignore[misc]
            assert ended(store, started["workflow_id"]).outputs == {"m": number * 4}


# -- afl:resume -----------------------------------------------------------------------------------------------


def answered(store: MemoryStore) -> tuple[str, str]:
    """A run whose step an agent of another language answered by writing into the store."""
    run = begin(store)
    step = store.get_step(StepId(only_task(store, run).step_id))
    assert step is not None
    step.set_attribute("m", 11, is_return=True)
    store.save_step(step)
    return run, step.id


def test_resume_continues_the_step_and_its_run(store: MemoryStore) -> None:
    run, step = answered(store)
    ask(store, RESUME_TASK_NAME, {"step_id": step, "workflow_id": run}, data_type="resume")
    assert runner_on(store, None).run_once() == 1
    assert task_of(store).state == TaskState.COMPLETED
    assert task_of(store).result == {"workflow_id": run, "continued": True}
    assert run_of(store, run).outputs == {"m": 11}


def test_resume_finds_step_and_run_in_the_task_itself(store: MemoryStore) -> None:
    run, step = answered(store)
    done = store.get_task_by_step(StepId(step))  # the agent closed its own task
    assert done is not None
    done.state = TaskState.COMPLETED
    store.save_task(done)
    ask(store, RESUME_TASK_NAME, None, step_id=step, workflow_id=run)
    runner_on(store, None).run_once()
    assert run_of(store, run).outputs == {"m": 11}


@pytest.mark.parametrize("state", [TaskState.PENDING, TaskState.RUNNING, TaskState.COMPLETED])
def test_resume_that_names_its_step_does_not_wait_for_the_steps_own_task(
    store: MemoryStore, state: str
) -> None:
    run, step = answered(store)
    own = store.get_task_by_step(StepId(step))
    assert own is not None
    own.state, own.owner = state, "another" if state == TaskState.RUNNING else ""
    store.save_task(own)
    ask(store, RESUME_TASK_NAME, None, step_id=step, workflow_id=run)
    assert {event.event_type for event in EventManager(store).get_pending_events(WorkflowId(run))} <= {
        "ns.Double"
    }
    assert runner_on(store, None).run_once() == 1
    assert task_of(store).state == TaskState.COMPLETED
    assert run_of(store, run).outputs == {"m": 11}


def test_the_step_alone_is_enough(store: MemoryStore) -> None:
    run, step = answered(store)
    ask(store, RESUME_TASK_NAME, {"step_id": step})
    runner_on(store, None).run_once()
    assert run_of(store, run).outputs == {"m": 11}


def test_a_step_that_went_on_already_is_no_error(store: MemoryStore) -> None:
    run, step = answered(store)
    Evaluator(store).continue_step(StepId(step), {})
    Evaluator(store).resume(run_id := store.get_runs()[0].workflow_id)  # type: ignore[arg-type]
    assert run_id == run
    ask(store, RESUME_TASK_NAME, {"step_id": step, "workflow_id": run})
    runner_on(store, None).run_once()
    assert task_of(store).state == TaskState.COMPLETED
    assert task_of(store).result == {"workflow_id": run, "continued": False}
    assert run_of(store, run).outputs == {"m": 11}


def test_a_result_that_does_not_fit_fails_the_step(store: MemoryStore) -> None:
    run, step = answered(store)
    stored = store.get_step(StepId(step))
    assert stored is not None
    stored.set_attribute("m", "eleven", is_return=True)
    store.save_step(stored)
    ask(store, RESUME_TASK_NAME, {"step_id": step, "workflow_id": run})
    runner_on(store, None).run_once()
    assert run_of(store, run).state == RunnerState.FAILED
    assert "return field 'm'" in str(run_of(store, run).error)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "Resume task missing step_id"),
        ({}, "Resume task missing step_id"),
        ({"workflow_id": "w"}, "Resume task missing step_id"),
        ({"step_id": "nobody/a"}, "Step nobody/a not found"),
    ],
)
def test_what_cannot_be_resumed_fails_with_the_reason(
    store: MemoryStore, data: dict[str, Any] | None, message: str
) -> None:
    ask(store, RESUME_TASK_NAME, data)
    service = runner_on(store, None)
    assert service.run_once() == 1
    task = task_of(store)
    assert (task.state, task.error) == (TaskState.FAILED, {"message": message, "type": "InputError"})
    assert service.status()["handled"]["afl:resume"] == {"handled": 0, "not_handled": 1}


def test_a_step_that_is_not_there_yet_fails_with_its_state(store: MemoryStore) -> None:
    run = begin(store)
    step = store.get_step(StepId(only_task(store, run).step_id))
    assert step is not None
    step.change_state("state.facet.initialization.Begin")
    store.save_step(step)
    ask(store, RESUME_TASK_NAME, {"step_id": step.id})
    runner_on(store, None).run_once()
    error = task_of(store).error
    assert error is not None
    assert error["message"] == (
        f"Step {step.id} is at state.facet.initialization.Begin, expected state.EventTransmit"
    )


def test_the_answer_of_an_agent_elsewhere_is_heard_by_a_service(store: MemoryStore) -> None:
    recorder = Recorder(store)
    with serving(runner_on(recorder.api, Gate()), recorder):
        run = begin(store, task_list="elsewhere")
        step = store.get_step(StepId(only_task(store, run).step_id))
        assert step is not None
        step.set_attribute("m", 5, is_return=True)
        store.save_step(step)
        ask(store, RESUME_TASK_NAME, {"step_id": step.id, "workflow_id": run})
        assert ended(store, run).outputs == {"m": 5}
