"""State names and transition tables of steps and events."""

from __future__ import annotations

import pytest

from afl.runtime.states import (
    BLOCK_TRANSITIONS,
    EVENT_TRANSITIONS,
    STEP_TRANSITIONS,
    YIELD_TRANSITIONS,
    EventState,
    StepState,
    get_next_state,
    select_transitions,
)
from afl.runtime.types import ObjectType

STEP_PATH = [
    "state.statement.Created",
    "state.facet.initialization.Begin",
    "state.facet.initialization.End",
    "state.facet.scripts.Begin",
    "state.facet.scripts.End",
    "state.mixin.blocks.Begin",
    "state.mixin.blocks.Continue",
    "state.mixin.blocks.End",
    "state.mixin.capture.Begin",
    "state.mixin.capture.End",
    "state.EventTransmit",
    "state.statement.blocks.Begin",
    "state.statement.blocks.Continue",
    "state.statement.blocks.End",
    "state.statement.capture.Begin",
    "state.statement.capture.End",
    "state.statement.End",
    "state.statement.Complete",
]
BLOCK_PATH = [
    "state.statement.Created",
    "state.block.execution.Begin",
    "state.block.execution.Continue",
    "state.block.execution.End",
    "state.statement.End",
    "state.statement.Complete",
]
YIELD_PATH = [*STEP_PATH[:5], *STEP_PATH[-2:]]


def walk(table: dict[str, str], state: str | None) -> list[str]:
    path = []
    while state is not None:
        path.append(state)
        state = get_next_state(state, table)
    return path


@pytest.mark.parametrize(
    ("table", "path"),
    [(STEP_TRANSITIONS, STEP_PATH), (BLOCK_TRANSITIONS, BLOCK_PATH), (YIELD_TRANSITIONS, YIELD_PATH)],
    ids=["step", "block", "yield"],
)
def test_tables_lead_from_created_to_complete(table: dict[str, str], path: list[str]) -> None:
    assert walk(table, StepState.CREATED) == path


def test_step_state_names() -> None:
    assert StepState.CREATED == "state.statement.Created"
    assert StepState.FACET_INIT_BEGIN == "state.facet.initialization.Begin"
    assert StepState.FACET_INIT_END == "state.facet.initialization.End"
    assert StepState.FACET_SCRIPTS_BEGIN == "state.facet.scripts.Begin"
    assert StepState.FACET_SCRIPTS_END == "state.facet.scripts.End"
    assert StepState.STATEMENT_SCRIPTS_BEGIN == "state.statement.scripts.Begin"
    assert StepState.STATEMENT_SCRIPTS_END == "state.statement.scripts.End"
    assert StepState.MIXIN_BLOCKS_BEGIN == "state.mixin.blocks.Begin"
    assert StepState.MIXIN_BLOCKS_CONTINUE == "state.mixin.blocks.Continue"
    assert StepState.MIXIN_BLOCKS_END == "state.mixin.blocks.End"
    assert StepState.MIXIN_CAPTURE_BEGIN == "state.mixin.capture.Begin"
    assert StepState.MIXIN_CAPTURE_END == "state.mixin.capture.End"
    assert StepState.EVENT_TRANSMIT == "state.EventTransmit"
    assert StepState.STATEMENT_BLOCKS_BEGIN == "state.statement.blocks.Begin"
    assert StepState.STATEMENT_BLOCKS_CONTINUE == "state.statement.blocks.Continue"
    assert StepState.STATEMENT_BLOCKS_END == "state.statement.blocks.End"
    assert StepState.BLOCK_EXECUTION_BEGIN == "state.block.execution.Begin"
    assert StepState.BLOCK_EXECUTION_CONTINUE == "state.block.execution.Continue"
    assert StepState.BLOCK_EXECUTION_END == "state.block.execution.End"
    assert StepState.STATEMENT_CAPTURE_BEGIN == "state.statement.capture.Begin"
    assert StepState.STATEMENT_CAPTURE_END == "state.statement.capture.End"
    assert StepState.STATEMENT_CATCH_BEGIN == "state.statement.catch.Begin"
    assert StepState.STATEMENT_CATCH_CONTINUE == "state.statement.catch.Continue"
    assert StepState.STATEMENT_CATCH_END == "state.statement.catch.End"
    assert StepState.STATEMENT_END == "state.statement.End"
    assert StepState.STATEMENT_COMPLETE == "state.statement.Complete"
    assert StepState.STATEMENT_ERROR == "state.statement.Error"


def test_two_step_states_are_terminal() -> None:
    states = [value for name, value in vars(StepState).items() if name.isupper()]
    assert {s for s in states if StepState.is_terminal(s)} == {
        "state.statement.Complete",
        "state.statement.Error",
    }
    assert [s for s in states if StepState.is_complete(s)] == ["state.statement.Complete"]
    assert [s for s in states if StepState.is_error(s)] == ["state.statement.Error"]


@pytest.mark.parametrize("state", ["state.statement.Complete", "state.statement.Error", "state.nowhere"])
@pytest.mark.parametrize("table", [STEP_TRANSITIONS, BLOCK_TRANSITIONS, YIELD_TRANSITIONS])
def test_nothing_follows_a_terminal_or_unknown_state(state: str, table: dict[str, str]) -> None:
    assert get_next_state(state, table) is None


def test_yields_skip_blocks_mixins_and_events() -> None:
    assert not any("blocks" in state or "mixin" in state or "Event" in state for state in YIELD_PATH)
    assert StepState.EVENT_TRANSMIT not in YIELD_TRANSITIONS


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (ObjectType.VARIABLE_ASSIGNMENT, STEP_TRANSITIONS),
        (ObjectType.WORKFLOW, STEP_TRANSITIONS),
        (ObjectType.FACET, STEP_TRANSITIONS),
        (ObjectType.YIELD_ASSIGNMENT, YIELD_TRANSITIONS),
        (ObjectType.AND_THEN, BLOCK_TRANSITIONS),
        (ObjectType.AND_MAP, BLOCK_TRANSITIONS),
        (ObjectType.AND_MATCH, BLOCK_TRANSITIONS),
        (ObjectType.BLOCK, BLOCK_TRANSITIONS),
    ],
)
def test_the_table_of_a_step(kind: str, table: dict[str, str]) -> None:
    assert select_transitions(kind) is table


def test_event_state_names() -> None:
    assert EventState.CREATED == "event.Created"
    assert EventState.DISPATCHED == "event.Dispatched"
    assert EventState.PROCESSING == "event.Processing"
    assert EventState.COMPLETED == "event.Completed"
    assert EventState.ERROR == "event.Error"


def test_two_event_states_are_terminal() -> None:
    states = [value for name, value in vars(EventState).items() if name.isupper()]
    assert {s for s in states if EventState.is_terminal(s)} == {"event.Completed", "event.Error"}


def test_event_transitions() -> None:
    assert EVENT_TRANSITIONS == {
        "event.Created": "event.Dispatched",
        "event.Dispatched": "event.Processing",
        "event.Processing": "event.Completed",
    }
    assert walk(EVENT_TRANSITIONS, "event.Created")[-1] == "event.Completed"
