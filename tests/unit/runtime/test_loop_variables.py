"""The variable of a foreach or repeat hides what has the same name around it, where it is written and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from engine_bench import Engine

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
