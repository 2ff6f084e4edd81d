"""The texts of the runtime's errors."""

from __future__ import annotations

import pytest

from afl.kernel.errors import AgentFlowError
from afl.runtime import errors
from afl.runtime.errors import StepFailure
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, WorkflowId

TEXTS = [
    (
        errors.InvalidStepStateError("s1", "state.A", ["state.B", "state.C"]),
        "Step s1 is in state 'state.A', expected one of: ['state.B', 'state.C']",
    ),
    (errors.StepNotFoundError("s1"), "Step not found: s1"),
    (errors.BlockNotFoundError("b1"), "Block not found: b1"),
    (
        errors.DependencyNotSatisfiedError("s1", ["a", "b"]),
        "Step s1 has unsatisfied dependencies: a, b",
    ),
    (errors.EvaluationError("1 / 0", "bad"), "Evaluation error: bad (expression: 1 / 0)"),
    (errors.EvaluationError("x", "bad", "s1"), "Evaluation error in step s1: bad (expression: x)"),
    (errors.ReferenceError("a.b", "gone"), "Reference error: gone (reference: a.b)"),
    (errors.ReferenceError("a.b", "gone", "s1"), "Reference error in step s1: gone (reference: a.b)"),
]


@pytest.mark.parametrize(("error", "text"), TEXTS, ids=[type(e).__name__ for e, _ in TEXTS])
def test_texts(error: Exception, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.InvalidTransitionError("s1", "state.A", "state.B"), ["s1", "state.A", "state.B"]),
        (errors.ConcurrencyError("s1", "taken"), ["s1", "taken"]),
        (errors.EventError("e1", "is over"), ["e1", "is over"]),
        (errors.VersionMismatchError("1.0", "2.0", "store"), ["1.0", "2.0", "store"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_texts_name_what_was_wrong(error: Exception, words: list[str]) -> None:
    assert all(word in str(error) for word in words)


def test_every_error_descends_from_the_one_base_under_its_old_and_new_name() -> None:
    assert errors.RuntimeError is errors.WorkflowRuntimeError
    assert errors.ReferenceError is errors.UnresolvedReferenceError
    assert issubclass(errors.RuntimeError, AgentFlowError)
    assert all(isinstance(error, errors.RuntimeError) for error, _ in TEXTS)


def test_errors_can_be_raised_caught_and_kept_in_sets() -> None:
    with pytest.raises(errors.RuntimeError, match="Step not found: s9") as caught:
        raise errors.StepNotFoundError("s9")
    assert caught.value in {caught.value}


def test_a_failure_says_where() -> None:
    failure = StepFailure("no", "Boom", step="load[3].parse", facet="ns.F", line=4, column=7, source="w.afl")
    assert str(failure) == "no [step load[3].parse = ns.F, w.afl:4:7]"
    assert str(StepFailure("no")) == "no"
    assert str(StepFailure("no", step="a", line=4)) == "no [step a, line 4]"


def test_a_failure_survives_as_plain_data() -> None:
    failure = StepFailure("no", "Boom", step="a", facet="F", line=4, column=7, source="w.afl")
    assert StepFailure.from_dict(failure.to_dict()).to_dict() == failure.to_dict()
    assert StepFailure("no").to_dict() == {"message": "no", "error_type": "Error"}


def test_a_failed_step_can_be_copied() -> None:
    step = StepDefinition.create(WorkflowId("run"), ObjectType.VARIABLE_ASSIGNMENT)
    step.mark_error(StepFailure("boom", "Bang", step="a", line=3))
    twin = step.clone().transition.error
    assert isinstance(twin, StepFailure)
    assert twin is not step.transition.error
    assert twin.to_dict() == {"message": "boom", "error_type": "Bang", "step": "a", "line": 3}
