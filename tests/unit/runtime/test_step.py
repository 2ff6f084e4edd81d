"""A step and its transition."""

from __future__ import annotations

import pytest

from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition, StepTransition
from afl.runtime.types import BlockId, ObjectType, StatementId, StepId, VersionInfo, WorkflowId


@pytest.fixture
def step() -> StepDefinition:
    return StepDefinition.create(WorkflowId("run"), ObjectType.VARIABLE_ASSIGNMENT, "ns.F")


def test_an_initial_transition_asks_to_go_on() -> None:
    transition = StepTransition.initial()
    assert transition == StepTransition(StepState.CREATED, StepState.CREATED, request_transition=True)
    assert transition.is_requesting_state_change
    assert not (transition.changed or transition.is_requesting_push or transition.has_error)


def test_a_request_is_a_change_and_its_withdrawal_is_none() -> None:
    transition = StepTransition(StepState.CREATED, StepState.CREATED)
    transition.request_state_change(False)
    assert not (transition.changed or transition.request_transition)
    transition.request_state_change()
    assert transition.changed
    assert transition.request_transition
    transition.request_state_change(False)
    assert transition.changed
    assert not transition.is_requesting_state_change


def test_change_and_transition_does_both() -> None:
    transition = StepTransition(StepState.CREATED, StepState.CREATED)
    transition.change_and_transition()
    assert (transition.changed, transition.request_transition) == (True, True)


def test_push_lasts_one_iteration() -> None:
    transition = StepTransition.initial()
    transition.set_push_me(True)
    assert transition.is_requesting_push
    transition.reset_for_iteration()
    assert not transition.is_requesting_push


def test_an_error_is_a_change() -> None:
    transition = StepTransition(StepState.CREATED, StepState.CREATED)
    transition.set_error(ValueError("no"))
    assert transition.has_error
    assert transition.changed


def test_commit_makes_the_current_state_the_original_one() -> None:
    transition = StepTransition(StepState.CREATED, StepState.FACET_INIT_BEGIN, True, True)
    transition.commit()
    assert transition == StepTransition(StepState.FACET_INIT_BEGIN, StepState.FACET_INIT_BEGIN)


def test_create_fills_every_place() -> None:
    step = StepDefinition.create(
        WorkflowId("run"),
        ObjectType.VARIABLE_ASSIGNMENT,
        facet_name="F",
        statement_id=StatementId("s"),
        container_id=StepId("c"),
        container_type=ObjectType.WORKFLOW,
        block_id=BlockId("b"),
        root_id=StepId("r"),
    )
    assert (step.workflow_id, step.facet_name, step.statement_id) == ("run", "F", "s")
    assert (step.container_id, step.container_type, step.block_id, step.root_id) == (
        "c",
        "Workflow",
        "b",
        "r",
    )
    assert step.id != StepDefinition.create(WorkflowId("run"), ObjectType.BLOCK).id


def test_a_fresh_step(step: StepDefinition) -> None:
    assert step.state == step.current_state == StepState.CREATED
    assert step.is_requesting_state_change
    assert step.is_statement
    assert not (step.is_block or step.is_terminal or step.is_complete or step.is_error)
    assert step.version == VersionInfo()
    assert step.timestamp is None


def test_change_state_moves_the_transition_too(step: StepDefinition) -> None:
    step.change_state(StepState.EVENT_TRANSMIT)
    assert (step.state, step.current_state) == (StepState.EVENT_TRANSMIT, StepState.EVENT_TRANSMIT)
    assert step.transition.changed


def test_mark_completed(step: StepDefinition) -> None:
    step.mark_completed()
    assert step.state == StepState.STATEMENT_COMPLETE
    assert step.is_complete
    assert step.is_terminal
    assert not step.is_requesting_state_change


def test_mark_error(step: StepDefinition) -> None:
    problem = ValueError("boom")
    step.mark_error(problem)
    assert step.state == StepState.STATEMENT_ERROR
    assert step.is_error
    assert step.is_terminal
    assert step.transition.error is problem
    step.mark_error()
    assert step.transition.error is None


def test_the_next_state_follows_the_kind_of_step(step: StepDefinition) -> None:
    assert step.select_next_state() == StepState.FACET_INIT_BEGIN
    step.change_state(StepState.FACET_SCRIPTS_END)
    assert step.select_next_state() == StepState.MIXIN_BLOCKS_BEGIN
    result = StepDefinition.create(WorkflowId("run"), ObjectType.YIELD_ASSIGNMENT)
    result.change_state(StepState.FACET_SCRIPTS_END)
    assert result.select_next_state() == StepState.STATEMENT_END
    block = StepDefinition.create(WorkflowId("run"), ObjectType.AND_THEN)
    assert block.is_block
    assert block.select_next_state() == StepState.BLOCK_EXECUTION_BEGIN
    block.mark_completed()
    assert block.select_next_state() is None


def test_a_clone_shares_nothing(step: StepDefinition) -> None:
    step.set_attribute("a", {"list": [1]})
    copied = step.clone()
    assert copied == step
    copied.attributes.params["a"].value["list"].append(2)
    copied.set_attribute("b", 1)
    copied.change_state(StepState.STATEMENT_ERROR)
    assert step.get_attribute("a") == {"list": [1]}
    assert step.get_attribute("b") is None
    assert step.state == StepState.CREATED
    assert step.transition.current_state == StepState.CREATED


def test_a_return_is_read_before_the_param_of_its_name(step: StepDefinition) -> None:
    step.set_attribute("a", "param")
    assert step.get_attribute("a") == "param"
    step.set_attribute("a", "return", is_return=True)
    assert step.get_attribute("a") == "return"
    assert step.attributes.get_param("a") == "param"


def test_a_null_return_is_a_value(step: StepDefinition) -> None:
    step.set_attribute("a", "param")
    step.set_attribute("a", None, is_return=True)
    assert step.get_attribute("a") is None
    assert "a" in step.attributes.returns
