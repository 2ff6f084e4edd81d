"""A value that is known only when a step runs fits the type that is declared for it, or fails the step."""

from __future__ import annotations

import pytest
from engine_bench import Engine

from afl.runtime.errors import StepFailure

MISFITS = {
    "a return of the workflow": (
        "workflow W(j: Json) => (n: Long) andThen { yield W(n = $.j) }",
        "W: return 'n': expected Long, got String 'text'",
        "yield",
    ),
    "a return of a facet": (
        """facet F(j: Json) => (n: Long) andThen { yield F(n = $.j) }
        workflow W(j: Json) => (n: Json) andThen { f = F($.j) yield W(n = f.n) }""",
        "F: return 'n': expected Long, got String 'text'",
        "f.yield",
    ),
    "an element of a list": (
        "workflow W(j: Json) => (n: [Long]) andThen foreach x in [1, 2] { yield W(n = [x, $.j]) }",
        "W: return 'n'[1]: expected Long, got String 'text'",
        "[0].yield",
    ),
    "a field of a map": (
        'schema S { x: Long } workflow W(j: Json) => (n: S) andThen { yield W(n = #{x: "one"}) }',
        "W: return 'n'.x: expected Long, got String 'one'",
        "yield",
    ),
    "an argument of a facet": (
        "facet F(n: Long) workflow W(j: Json) => (n: Json) andThen { f = F($.j) yield W(n = f.n) }",
        "F: argument 'n': expected Long, got String 'text'",
        "f",
    ),
    "a field of a schema": (
        "schema S { x: Long } workflow W(j: Json) => (n: Json) andThen { s = S($.j) yield W(n = s.x) }",
        "S: argument 'x': expected Long, got String 'text'",
        "s",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_fails_the_step(engine: Engine, name: str) -> None:
    source, message, step = MISFITS[name]
    error = engine.run(source, {"j": "text"}, name="W").error
    assert isinstance(error, StepFailure)
    assert (error.error_type, error.message, error.step) == ("TypeMismatch", message, step)


def test_a_catch_can_handle_it(engine: Engine) -> None:
    source = """
        facet F(j: Json) => (n: Long) andThen { yield F(n = $.j) }
        workflow W(j: Json) => (n: Long) andThen {
            f = F($.j) catch { yield F(n = -1) }
            yield W(n = f.n)
        }
    """
    assert engine.run(source, {"j": "text"}, name="W").outputs == {"n": -1}
    assert engine.run(source, {"j": 7}, name="W").outputs == {"n": 7}
    assert engine.run(source, {"j": None}, name="W").outputs == {"n": None}
