"""What boxes of a graph, and lines of a tree, say besides names: the condition of a case, and who does a step."""

from __future__ import annotations

import re
from collections.abc import Mapping

from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.program.policies import BRIDGES, NAMESPACE
from afl.runtime.program.program import Program

_CASE = re.compile(r"case\s+(.+?)\s*=>", re.DOTALL)
_LONGEST = 2_000  # characters of a condition that are looked at


def case_title(program: Program, when: DependencyGraph, number: int) -> str:
    """A case as it was written: `case $.n > 250`; without the source, `case 1`."""
    case = when.cases[number]
    if case.condition is None:
        return "case _"
    return f"case {_condition(program, case.graph.location) or number + 1}"


def _condition(program: Program, location: Mapping[str, object] | None) -> str:
    """A case's condition; empty if the source was not stored, or has something else there."""
    line, column = (location or {}).get("line"), (location or {}).get("column")
    lines = program.source_text.split("\n")
    if not isinstance(line, int) or not isinstance(column, int) or not 0 < line <= len(lines):
        return ""
    start = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    found = _CASE.match(program.source_text[start : start + _LONGEST])
    return " ".join(found[1].split()) if found else ""


def doer(statement: StatementDefinition, called: Declaration | None) -> str:
    """Who does a step where a bridge says so, as tasks have it in `via`: `human:finance`; else empty."""
    for uses in (statement.mixins, called.mixins if called is not None else ()):
        for use in uses:
            kind = BRIDGES.get(use.target.removeprefix(NAMESPACE))
            if kind is not None and use.target.startswith(NAMESPACE):
                return f"{kind}:{_constant_name(use.ast)}".rstrip(":")
    return ""


def _constant_name(use: Mapping[str, object]) -> str:
    """The bridge's first argument if it is a text; one that is worked out is known when the step runs."""
    args = use.get("args")
    for arg in args if isinstance(args, list) else []:
        value = arg.get("value", {})
        if arg.get("name") == "name" and value.get("type") == "String":
            return str(value.get("value", ""))
    return ""
