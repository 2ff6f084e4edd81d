"""Workflows of a given size and shape."""

from __future__ import annotations

from functools import cache
from typing import Any

from afl.language import compile_source

HEADER = """
facet Plain(n: Long) => (m: Long)
event facet Work(n: Long) => (m: Long)
"""


def chain(size: int, facet: str = "Plain") -> str:
    """Each step uses the one before."""
    attribute = "m" if facet == "Work" else "n"
    steps = [f"  s0 = {facet}(n = $.i)"]
    steps += [f"  s{k} = {facet}(n = s{k - 1}.{attribute} + 1)" for k in range(1, size)]
    return _workflow(steps, f"s{size - 1}.n")


def fan_out(size: int) -> str:
    """All steps use the first."""
    steps = ["  s0 = Plain(n = $.i)", *(f"  s{k} = Plain(n = s0.n + {k})" for k in range(1, size))]
    return _workflow(steps, f"s{size - 1}.n")


def foreach(facet: str = "Plain") -> str:
    """One step and one yield per element."""
    attribute = "m" if facet == "Work" else "n"
    return (
        f"{HEADER}workflow W(xs: [Long]) => (o: [Long]) andThen foreach x in $.xs {{\n"
        f"  a = {facet}(n = x)\n  yield W(o = [a.{attribute}])\n}}\n"
    )


def _workflow(steps: list[str], output: str) -> str:
    body = "\n".join(steps)
    return f"{HEADER}workflow W(i: Long = 1) => (o: Long) andThen {{\n{body}\n  yield W(o = {output})\n}}\n"


@cache
def compiled(source: str) -> dict[str, Any]:
    """The compiled program."""
    return compile_source(source).program
