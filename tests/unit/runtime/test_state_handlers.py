"""State handlers: the base class, the registry, and what single states do."""

from __future__ import annotations

from typing import Any

import pytest
from runtime_programs import dollar, giving, step

from afl.runtime import handlers
from afl.runtime.entities import TaskState
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.evaluator import ExecutionContext
from afl.runtime.handlers import STATE_HANDLERS, completion, get_handler, initialization
from afl.runtime.handlers.base import StateHandler
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.program.program import Program
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import ObjectType, StepId, WorkflowId

RUN = WorkflowId("run")
PROGRAM = {
    "declarations": [
        {
            "type": "Namespace",
            "name": "example.4",
            "declarations": [
                {
                    "type": "EventFacetDecl",
                    "name": "CountDocuments",
                    "params": [{"name": "i", "type": "Long"}],
                }
            ],
        },
        {"type": "FacetDecl", "name": "Value", "params": [{"name": "i", "type": "Long"}]},
    ]
}
WORKFLOW = {
    "name": "W",
    "body": {
        "steps": [step("a", "CountDocuments", i=dollar("i")), step("b", "Value", i=2)],
        "yield": giving("W", o=1),
    },
}


class Plain(StateHandler):
    """Does what a test tells it."""

    def process_state(self) -> StateChangeResult:
        return self.transition()


class Broken(StateHandler):
    def process_state(self) -> StateChangeResult:
        raise ValueError("boom")


@pytest.fixture
def context(store: MemoryStore) -> ExecutionContext:
    made = ExecutionContext(
        persistence=store,
        telemetry=Telemetry(),
        changes=IterationChanges(),
        workflow_id=RUN,
        runner_id="runner-1",
        program=Program({"program": PROGRAM, "workflow": WORKFLOW}),
    )
    root = made.create_step(StepId(RUN), ObjectType.WORKFLOW, facet_name="W")
    root.set_attribute("i", 1)
    made.create_step(StepId("run/0"), ObjectType.AND_THEN, owner_id=root.id, owner_type=root.object_type)
    return made


def statement_step(context: ExecutionContext, name: str, facet: str, state: str) -> StepDefinition:
    owner = context.require_step(StepId(RUN))
    statement = context.program.place(f"0/{name}").statement
    made = context.create_step(
        StepId(f"run/0/{name}"),
        ObjectType.VARIABLE_ASSIGNMENT,
        statement=statement,
        owner_id=owner.id,
        facet_name=facet,
    )
    made.change_state(state)
    made.transition.request_transition = False
    return made


@pytest.fixture
def counting(context: ExecutionContext) -> StepDefinition:
    return statement_step(context, "a", "example.4.CountDocuments", StepState.EVENT_TRANSMIT)


def telemetry_of(context: ExecutionContext) -> list[tuple[str, str | None]]:
    return [
        (e.event_type, e.state)
        for e in context.telemetry.events
        if e.event_type.startswith(("state", "step.e"))
    ]


def test_the_base_is_abstract() -> None:
    assert StateHandler.__abstractmethods__ == {"process_state"}


def test_process_logs_begin_and_end(context: ExecutionContext, counting: StepDefinition) -> None:
    result = Plain(counting, context).process()
    assert result.success
    assert telemetry_of(context) == [("state.begin", "Plain"), ("state.end", "Plain")]


def test_process_turns_an_exception_into_a_result(
    context: ExecutionContext, counting: StepDefinition
) -> None:
    result = Broken(counting, context).process()
    assert (result.step, result.success) == (counting, False)
    assert isinstance(result.error, ValueError)
    assert telemetry_of(context) == [("state.begin", "Broken"), ("step.error", "Broken")]


def test_an_exception_is_a_result_without_telemetry_too(
    context: ExecutionContext, counting: StepDefinition
) -> None:
    context.telemetry.enabled = False
    result = Broken(counting, context).process()
    assert not result.success
    assert isinstance(result.error, ValueError)


def test_transition_requests_the_next_state(context: ExecutionContext, counting: StepDefinition) -> None:
    result = Plain(counting, context).transition()
    assert counting.is_requesting_state_change
    assert (result.success, result.error, result.continue_processing) == (True, None, True)


@pytest.mark.parametrize("push", [False, True])
def test_stay_withdraws_the_request(context: ExecutionContext, counting: StepDefinition, push: bool) -> None:
    counting.request_state_change(True)
    result = Plain(counting, context).stay(push)
    assert not counting.is_requesting_state_change
    assert counting.transition.is_requesting_push is push
    assert (result.success, result.continue_processing) == (True, push)


def test_error_marks_the_step(context: ExecutionContext, counting: StepDefinition) -> None:
    problem = ValueError("boom")
    result = Plain(counting, context).error(problem)
    assert (result.success, result.error, result.continue_processing) == (False, problem, False)
    assert counting.state == StepState.STATEMENT_ERROR
    assert counting.transition.error is problem


def test_a_result_is_a_success_unless_said_otherwise(counting: StepDefinition) -> None:
    result = StateChangeResult(counting)
    assert (result.success, result.error, result.continue_processing) == (True, None, True)


def test_every_state_but_error_has_a_handler() -> None:
    states = {value for name, value in vars(StepState).items() if name.isupper()}
    assert set(STATE_HANDLERS) == states - {StepState.STATEMENT_ERROR}
    assert len(set(STATE_HANDLERS.values())) == len(STATE_HANDLERS)
    assert all(issubclass(kind, StateHandler) for kind in STATE_HANDLERS.values())


@pytest.mark.parametrize(
    "name",
    [
        "StatementBeginHandler",
        "FacetInitializationBeginHandler",
        "FacetInitializationEndHandler",
        "FacetScriptsBeginHandler",
        "FacetScriptsEndHandler",
        "StatementScriptsBeginHandler",
        "StatementScriptsEndHandler",
        "MixinBlocksBeginHandler",
        "MixinBlocksContinueHandler",
        "MixinBlocksEndHandler",
        "MixinCaptureBeginHandler",
        "MixinCaptureEndHandler",
        "EventTransmitHandler",
        "StatementBlocksBeginHandler",
        "StatementBlocksContinueHandler",
        "StatementBlocksEndHandler",
        "StatementCaptureBeginHandler",
        "StatementCaptureEndHandler",
        "BlockExecutionBeginHandler",
        "BlockExecutionContinueHandler",
        "BlockExecutionEndHandler",
        "StatementEndHandler",
        "StatementCompleteHandler",
    ],
)
def test_handlers_are_importable_and_registered(name: str) -> None:
    kind = getattr(handlers, name)
    assert issubclass(kind, StateHandler)
    assert kind in STATE_HANDLERS.values()


def test_get_handler(context: ExecutionContext, counting: StepDefinition) -> None:
    found = get_handler(StepState.EVENT_TRANSMIT, counting, context)
    assert found is not None
    assert (found.step, found.context) == (counting, context)
    assert found.state_name == "EventTransmitHandler"
    assert get_handler("state.nowhere", counting, context) is None
    assert get_handler(StepState.STATEMENT_ERROR, counting, context) is None


def test_event_transmit_is_importable_from_both_modules() -> None:
    assert (
        initialization.EventTransmitHandler
        is completion.EventTransmitHandler
        is handlers.EventTransmitHandler
    )


def test_event_transmit_of_an_event_facet_makes_event_and_task_and_stays(
    context: ExecutionContext, counting: StepDefinition
) -> None:
    counting.set_attribute("i", 3)
    result = handlers.EventTransmitHandler(counting, context).process()
    assert not counting.is_requesting_state_change
    assert counting.state == StepState.EVENT_TRANSMIT
    assert result.success
    (event,), (task,) = context.changes.created_events, context.changes.created_tasks
    assert (event.step_id, event.workflow_id, event.state) == (counting.id, RUN, EventState.CREATED)
    assert (event.event_type, event.payload) == ("example.4.CountDocuments", {"i": 3})
    assert (task.name, task.step_id, task.workflow_id) == ("example.4.CountDocuments", counting.id, RUN)
    assert (task.state, task.params, task.error) == (TaskState.PENDING, {"i": 3}, None)
    assert (task.runner_id, task.task_list_name, task.data_type) == ("runner-1", "default", "")
    assert task.created == task.updated > 0


@pytest.mark.parametrize("facet", ["Value", "never.declared"])
def test_event_transmit_of_anything_else_passes_through(context: ExecutionContext, facet: str) -> None:
    plain = statement_step(context, "b", facet, StepState.EVENT_TRANSMIT)
    result = handlers.EventTransmitHandler(plain, context).process()
    assert plain.is_requesting_state_change
    assert result.continue_processing
    assert (context.changes.created_events, context.changes.created_tasks) == ([], [])


def test_initialization_evaluates_arguments(context: ExecutionContext) -> None:
    fresh = statement_step(context, "a", "example.4.CountDocuments", StepState.FACET_INIT_BEGIN)
    result = handlers.FacetInitializationBeginHandler(fresh, context).process()
    assert result.success
    assert fresh.attributes.get_param("i") == 1
    assert fresh.is_requesting_state_change


def test_initialization_of_the_root_evaluates_nothing(context: ExecutionContext) -> None:
    root = context.require_step(StepId(RUN))
    root.transition.request_transition = False
    result = handlers.FacetInitializationBeginHandler(root, context).process()
    assert result.success
    assert root.is_requesting_state_change
    assert root.attributes.get_param("i") == 1


def test_initialization_that_fails_is_an_error_result(context: ExecutionContext) -> None:
    context.require_step(StepId(RUN)).attributes.params.clear()
    fresh = statement_step(context, "a", "example.4.CountDocuments", StepState.FACET_INIT_BEGIN)
    result = handlers.FacetInitializationBeginHandler(fresh, context).process()
    assert not result.success
    assert "Input parameter 'i' not found" in str(result.error)


def test_completion_ends_the_step(context: ExecutionContext, counting: StepDefinition) -> None:
    result = handlers.StatementCompleteHandler(counting, context).process()
    assert counting.is_complete
    assert not result.continue_processing


@pytest.mark.parametrize(
    "state",
    [
        StepState.CREATED,
        StepState.FACET_INIT_END,
        StepState.FACET_SCRIPTS_BEGIN,
        StepState.FACET_SCRIPTS_END,
        StepState.STATEMENT_SCRIPTS_BEGIN,
        StepState.STATEMENT_SCRIPTS_END,
        StepState.MIXIN_BLOCKS_BEGIN,
        StepState.MIXIN_BLOCKS_CONTINUE,
        StepState.MIXIN_BLOCKS_END,
        StepState.MIXIN_CAPTURE_BEGIN,
        StepState.MIXIN_CAPTURE_END,
        StepState.STATEMENT_BLOCKS_END,
        StepState.STATEMENT_CAPTURE_END,
        StepState.STATEMENT_END,
    ],
)
def test_states_without_work_pass_through(context: ExecutionContext, state: str) -> None:
    plain = statement_step(context, "b", "Value", state)
    before: dict[str, Any] = dict(plain.attributes.params)
    handler = get_handler(state, plain, context)
    assert handler is not None
    assert handler.process().success
    assert plain.is_requesting_state_change
    assert plain.attributes.params == before
