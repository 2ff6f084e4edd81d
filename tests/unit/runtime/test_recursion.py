"""Calls that nest without end fail with a clear error; those that come to an end do not."""

from __future__ import annotations

import pytest
from engine_bench import Engine

from afl.runtime.errors import StepFailure
from afl.runtime.evaluator import ExecutionStatus
from afl.runtime.handlers.initialization import MAX_NESTED_CALLS

COUNT = """
workflow Count(n: Long) => (sum: Long) andThen when {
    case $.n > 0 => {
        rest = Count($.n - 1)
        yield Count(sum = rest.sum + 1)
    }
    case _ => { yield Count(sum = 0) }
}
"""
ENDLESS = {
    "itself": (
        "workflow W(n: Long = 1) andThen when { case $.n > 0 => { a = W($.n + 1) } case _ => { } }",
        "W -> W",
        "a",
    ),
    "each other": (
        "facet A() andThen { b = B() } facet B() andThen { a = A() } workflow W() andThen { x = A() }",
        "A -> B -> A",
        "x",
    ),
    "a mixin of itself": ("facet A() with A() as a workflow W() andThen { x = A() }", "A -> A", "x"),
    "itself in a foreach": (
        "workflow W(xs: [Long] = [7]) andThen foreach x in $.xs { a = W([x]) }",
        "W -> W",
        "[0]",
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_calls_fail_and_the_cycle_is_named(engine: Engine, name: str) -> None:
    source, cycle, first = ENDLESS[name]
    result = engine.run(source, name="W")
    assert result.status == ExecutionStatus.ERROR
    assert isinstance(result.error, StepFailure)
    assert result.error.error_type == "RecursionLimit"
    assert result.error.message == f"{MAX_NESTED_CALLS} calls are nested, more are not allowed: {cycle}"
    assert result.error.step.startswith(first)


def test_as_many_calls_as_allowed_come_to_their_end(engine: Engine) -> None:
    result = engine.run(COUNT, {"n": MAX_NESTED_CALLS})
    assert (result.error, result.outputs) == (None, {"sum": MAX_NESTED_CALLS})


def test_one_more_does_not(engine: Engine) -> None:
    result = engine.run(COUNT, {"n": MAX_NESTED_CALLS + 1})
    assert isinstance(result.error, StepFailure)
    assert result.error.error_type == "RecursionLimit"


def test_a_catch_sees_it(engine: Engine) -> None:
    source = COUNT + (
        "workflow Careful() => (sum: Long, why: String) andThen {"
        " c = Count(1000) catch { yield Count(sum = -1) yield Careful(why = c.error_type) }"
        " yield Careful(sum = c.sum) }"
    )
    result = engine.run(source, name="Careful")
    assert (result.error, result.outputs) == (None, {"sum": -1, "why": "RecursionLimit"})
