"""Where the statements of a block, and the blocks of an owner, stand."""

from __future__ import annotations

import pytest
from runtime_programs import giving, ref, step

from afl.runtime.program.block import BlockAnalysis, StatementDefinition, StepAnalysis
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StatementId, WorkflowId

RUN = WorkflowId("run")
CHAIN = {"steps": [step("a", "N"), step("b", "N", n=ref("a", "n"))], "yield": giving("W", o=ref("b", "n"))}


@pytest.fixture
def statements() -> list[StatementDefinition]:
    return DependencyGraph.from_ast(CHAIN, set()).get_all_statements()


@pytest.fixture
def block() -> StepDefinition:
    return StepDefinition.create(RUN, ObjectType.AND_THEN)


def step_of(statement: str, state: str, *, request: bool = False, push: bool = False) -> StepDefinition:
    made = StepDefinition.create(RUN, ObjectType.VARIABLE_ASSIGNMENT, statement_id=StatementId(statement))
    made.change_state(state)
    made.request_state_change(request)
    made.transition.set_push_me(push)
    return made


def test_nothing_exists_yet(block: StepDefinition, statements: list[StatementDefinition]) -> None:
    analysis = StepAnalysis.load(block, statements, [])
    assert [s.id for s in analysis.missing] == ["a", "b", "yield-0"]
    assert [s.id for s in analysis.can_be_created()] == ["a"]
    assert analysis.completion_progress == (0, 3)
    assert analysis.has_pending_work()
    assert not (analysis.done or analysis.is_blocked())


def test_completion_makes_the_next_creatable(
    block: StepDefinition, statements: list[StatementDefinition]
) -> None:
    done = step_of("a", StepState.STATEMENT_COMPLETE)
    analysis = StepAnalysis.load(block, statements, [done])
    assert analysis.completed == [done]
    assert [s.id for s in analysis.can_be_created()] == ["b"]
    assert analysis.completion_progress == (1, 3)


def test_a_step_at_event_transmit_blocks(
    block: StepDefinition, statements: list[StatementDefinition]
) -> None:
    waiting = step_of("a", StepState.EVENT_TRANSMIT)
    analysis = StepAnalysis.load(block, statements, [waiting])
    assert analysis.pending_event == [waiting]
    assert analysis.can_be_created() == []
    assert analysis.is_blocked()
    assert not analysis.has_pending_work()


def test_steps_are_sorted_by_what_they_wait_for(
    block: StepDefinition, statements: list[StatementDefinition]
) -> None:
    mixin = step_of("a", StepState.MIXIN_BLOCKS_CONTINUE)
    blocks = step_of("b", StepState.STATEMENT_BLOCKS_CONTINUE)
    moving = step_of("yield-0", StepState.FACET_INIT_BEGIN, request=True, push=True)
    analysis = StepAnalysis.load(block, statements, [mixin, blocks, moving])
    assert analysis.pending_mixin == [mixin]
    assert analysis.pending_blocks == [blocks]
    assert analysis.requesting_transition == [moving]
    assert analysis.requesting_push == [moving]
    assert analysis.missing == []
    assert analysis.has_pending_work()


def test_done_means_every_statement_completed(
    block: StepDefinition, statements: list[StatementDefinition]
) -> None:
    names = ["a", "b", "yield-0"]
    complete = [step_of(name, StepState.STATEMENT_COMPLETE) for name in names]
    assert StepAnalysis.load(block, statements, complete).done
    failed = [*complete[:2], step_of("yield-0", StepState.STATEMENT_ERROR)]
    assert not StepAnalysis.load(block, statements, failed).done
    assert StepAnalysis.load(block, [], []).done


def test_an_owner_waits_for_its_blocks() -> None:
    owner = StepDefinition.create(RUN, ObjectType.WORKFLOW)
    first, second = (StepDefinition.create(RUN, ObjectType.AND_THEN) for _ in range(2))
    first.mark_completed()
    analysis = BlockAnalysis.load(owner, [first, second])
    assert (analysis.step, analysis.blocks) == (owner, [first, second])
    assert (analysis.completed, analysis.pending, analysis.done) == ([first], [second], False)
    second.mark_completed()
    assert BlockAnalysis.load(owner, [first, second]).done


def test_an_owner_without_blocks_is_done() -> None:
    owner = StepDefinition.create(RUN, ObjectType.WORKFLOW)
    assert BlockAnalysis.load(owner, []).done
    assert BlockAnalysis.load(owner, [], mixins=True).done


def test_a_failed_block_is_not_complete() -> None:
    owner = StepDefinition.create(RUN, ObjectType.WORKFLOW)
    block = StepDefinition.create(RUN, ObjectType.AND_THEN)
    block.mark_error(ValueError("no"))
    analysis = BlockAnalysis.load(owner, [block])
    assert (analysis.completed, analysis.errored) == ([], [block])


def test_mixins_are_looked_at_apart() -> None:
    owner = StepDefinition.create(RUN, ObjectType.VARIABLE_ASSIGNMENT)
    mixin = StepDefinition.create(RUN, ObjectType.FACET)
    block = StepDefinition.create(RUN, ObjectType.AND_THEN)
    assert BlockAnalysis.load(owner, [mixin, block], mixins=True).blocks == [mixin]
    assert BlockAnalysis.load(owner, [mixin, block]).blocks == [block]
