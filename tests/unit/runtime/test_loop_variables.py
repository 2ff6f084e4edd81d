"""A variable of a foreach or repeat, or a step, hides what has the same name around it: in its block, nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from engine_bench import Engine

STEP = "facet N(n: Long)\nfacet M() => (m: Long = 0, all: [Long])\n"
LOOPS: dict[str, tuple[str, dict[str, Any]]] = {
    "a parameter": (
        """facet F(n: Long)
        workflow W(x: [Long]) => (all: [Long]) andThen foreach x in $.x limit len($.x) {
            f = F($.x)
            yield W(all = [f.n, x])
        }""",
        {"all": [1, 1, 2, 2]},
    ),
    "a step, in the list too": (
        """facet F(n: [Long])
        workflow W(x: [Long]) => (all: [Long]) andThen {
            x = F($.x)
            f = F([]) andThen foreach x in x.n { yield W(all = [x, $.x]) }
        }""",
        {"all": [1, 1, 2, 2]},
    ),
    "a parameter of a repeat": (
        """workflow W(x: [Long]) => (n: Long = 0) andThen repeat x limit len($.x) + 1 {
            yield W(n = $.x.n + 1)
        } until $.x.n == 3""",
        {"n": 3},
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_it_hides(engine: Engine, name: str) -> None:
    source, outputs = LOOPS[name]
    result = engine.run(source, {"x": [1, 2]}, name="W")
    assert (result.error, result.outputs) == (None, outputs)


HEADS = {
    "the list of a foreach": "foreach e in [s.n] limit s.n { s = N(e + 1) yield M(all = [s.n]) }",
    "the limit and the condition of a repeat": (
        "repeat last limit s.n { s = N(last.m + 2) yield M(m = s.n, all = [s.n]) } until last.m == s.n + 1"
    ),
    "the limit of a repeat whose variable has the name": (
        "repeat s limit s.n { yield M(m = 2, all = [2]) } until s.m == 2"
    ),
    "the condition of a when": (
        "when { case s.n == 1 => { s = N(2) yield M(all = [s.n]) } case _ => { yield M(all = [0]) } }"
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_step_hides_an_outer_one_in_its_block_and_not_in_the_head_of_it(engine: Engine, name: str) -> None:
    source = f"""{STEP} workflow W() => (all: [Long]) andThen {{
        first = N(1)
        second = N(first.n)
        s = N(second.n)
        m = M() andThen {HEADS[name]}
        yield W(all = m.all)
    }}"""
    result = engine.run(source, {}, name="W")
    assert (result.error, result.outputs) == (None, {"all": [2]})
