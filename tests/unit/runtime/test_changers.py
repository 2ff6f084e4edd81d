"""State changers: a step goes on until it waits, ends or fails."""

from __future__ import annotations

import pytest
from engine_bench import Engine
from runtime_programs import dollar, giving, step

from afl.runtime.evaluation.changers import (
    BlockStateChanger,
    StateChanger,
    StateChangeResult,
    StepStateChanger,
    YieldStateChanger,
    get_state_changer,
)
from afl.runtime.evaluator import ExecutionContext, ExecutionStatus
from afl.runtime.handlers import STATE_HANDLERS, StateHandler
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.program.program import Program
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import ObjectType, StepId, WorkflowId

RUN = WorkflowId("run")
PROGRAM = {
    "declarations": [{"type": "EventFacetDecl", "name": "Ask"}, {"type": "FacetDecl", "name": "Plain"}]
}
WORKFLOW = {
    "name": "W",
    "body": {
        "steps": [step("asks", "Ask"), step("plain", "Plain"), step("fails", "Plain", n=dollar("nope"))],
        "yield": giving("W", o=1),
    },
}


@pytest.fixture
def context(store: MemoryStore) -> ExecutionContext:
    made = ExecutionContext(
        persistence=store,
        telemetry=Telemetry(),
        changes=IterationChanges(),
        workflow_id=RUN,
        program=Program({"program": PROGRAM, "workflow": WORKFLOW}),
    )
    root = made.create_step(StepId(RUN), ObjectType.WORKFLOW, facet_name="W")
    made.create_step(StepId("run/0"), ObjectType.AND_THEN, owner_id=root.id, owner_type=root.object_type)
    return made


def fresh(context: ExecutionContext, key: str) -> StepDefinition:
    statement = context.program.place(f"0/{key}").statement
    assert statement is not None
    return context.create_step(
        StepId(f"run/0/{key}"),
        statement.object_type,
        statement=statement,
        owner_id=StepId(RUN),
        facet_name=statement.facet_name,
    )


def handled(context: ExecutionContext, step: StepDefinition) -> int:
    return sum(1 for e in context.telemetry.events if e.event_type == "state.begin" and e.step_id == step.id)


@pytest.mark.parametrize(
    ("kind", "changer"),
    [
        (ObjectType.VARIABLE_ASSIGNMENT, StepStateChanger),
        (ObjectType.WORKFLOW, StepStateChanger),
        (ObjectType.FACET, StepStateChanger),
        (ObjectType.YIELD_ASSIGNMENT, YieldStateChanger),
        (ObjectType.AND_THEN, BlockStateChanger),
        (ObjectType.AND_MAP, BlockStateChanger),
        (ObjectType.BLOCK, BlockStateChanger),
    ],
)
def test_the_changer_of_a_step(context: ExecutionContext, kind: str, changer: type[StateChanger]) -> None:
    assert type(get_state_changer(StepDefinition.create(RUN, kind), context)) is changer


def test_a_plain_step_runs_through_seventeen_states(context: ExecutionContext) -> None:
    plain = fresh(context, "plain")
    result = get_state_changer(plain, context).process()
    assert isinstance(result, StateChangeResult)
    assert plain.is_complete
    assert handled(context, plain) == 17


def test_a_yield_runs_through_six_states(context: ExecutionContext) -> None:
    result = fresh(context, ">0")
    get_state_changer(result, context).process()
    assert result.is_complete
    assert result.attributes.get_param("o") == 1
    assert handled(context, result) == 6


def test_an_event_step_waits_at_event_transmit(context: ExecutionContext) -> None:
    asks = fresh(context, "asks")
    result = get_state_changer(asks, context).process()
    assert asks.state == StepState.EVENT_TRANSMIT
    assert not asks.is_requesting_state_change
    assert result.success
    assert len(context.changes.created_tasks) == 1


def test_a_failing_handler_ends_the_step_in_error(context: ExecutionContext) -> None:
    fails = fresh(context, "fails")
    result = get_state_changer(fails, context).process()
    assert not result.success
    assert fails.is_error
    assert "Input parameter 'nope' not found" in str(fails.transition.error)


def test_a_block_opens_its_steps_and_waits(context: ExecutionContext) -> None:
    block = context.require_step(StepId("run/0"))
    get_state_changer(block, context).process()
    assert block.state == StepState.BLOCK_EXECUTION_CONTINUE
    created = [each.id for each in context.changes.created_steps]
    assert created[2:] == ["run/0/asks", "run/0/plain", "run/0/fails", "run/0/>0"]


def test_select_and_execute_one_state(context: ExecutionContext) -> None:
    plain = fresh(context, "plain")
    changer = get_state_changer(plain, context)
    assert changer.select_state() == StepState.FACET_INIT_BEGIN
    result = changer.execute_state(StepState.FACET_INIT_END)
    assert result.success
    assert plain.is_requesting_state_change


def test_a_state_without_handler_is_a_failure(context: ExecutionContext) -> None:
    result = get_state_changer(fresh(context, "plain"), context).execute_state("state.nowhere")
    assert not result.success
    assert "state.nowhere" in str(result.error)


def test_a_finished_step_stays_as_it_is(context: ExecutionContext) -> None:
    plain = fresh(context, "plain")
    get_state_changer(plain, context).process()
    plain.request_state_change(True)
    assert get_state_changer(plain, context).process().success
    assert plain.is_complete


class PrintedCompleteHandler(StateHandler):
    """As the specification prints it."""

    def process_state(self) -> StateChangeResult:
        self.step.mark_completed()
        self._notify_container()
        return StateChangeResult(step=self.step, continue_processing=False)

    def _notify_container(self) -> None:
        pass


def test_the_handler_that_the_specification_prints_completes_a_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STATE_HANDLERS, StepState.STATEMENT_COMPLETE, PrintedCompleteHandler)
    result = engine.run(
        """
        facet Two() => (n: Long) andThen { yield Two(n = 2) }
        workflow W() => (r: Long) andThen { a = Two() yield W(r = a.n + 1) }
        """
    )
    assert (result.status, result.outputs) == (ExecutionStatus.COMPLETED, {"r": 3})
