"""What could be written at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from afl.language.ast.declarations import Parameter
from afl.language.ast.expressions import CallExpr
from afl.language.functions import FUNCTIONS
from afl.language.names import Symbol, prelude
from afl.language.types import BUILTINS
from afl.language_server.lookup import Place, describe

KEYWORDS = (
    *(
        "namespace",
        "uses",
        "facet",
        "event",
        "workflow",
        "implicit",
        "schema",
        "prompt",
        "foreach",
        "in",
        "repeat",
    ),
    *("limit", "collect", "until", "for", "if", "when", "case", "with", "as", "andThen", "catch", "yield"),
    *("true", "false", "null", "not", "contains", "startsWith", "endsWith"),
)
_MEMBER = re.compile(r"(\$|[\w.]+)\.\w*$")
_TYPE = re.compile(r":\s*\[?\w*$")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_CALLED = re.compile(r"([A-Za-z_][\w.]*)\s*$")


@dataclass(frozen=True)
class Suggestion:
    """`kind` is as the language names it: keyword, function, facet, event facet, workflow, schema, type, ..."""

    name: str
    kind: str
    about: str = ""


def suggest(place: Place, before: str) -> list[Suggestion]:
    """`before` is the text up to the cursor."""
    line = before.rpartition("\n")[2]
    if member := _MEMBER.search(line):
        return list(_members(place, member[1]))
    if _TYPE.search(line):
        types = [Suggestion(name, "type") for name in BUILTINS]
        return types + [each for each in _declared(place) if each.kind in ("schema", "facet", "event facet")]
    suggestions = [Suggestion(each.name, "parameter") for each in _arguments(place, before)]
    suggestions += (Suggestion(name, "step") for name in place.steps())
    suggestions += _declared(place)
    suggestions += (Suggestion(each.name, "function", each.summary) for each in FUNCTIONS.values())
    return suggestions + [Suggestion(each, "keyword") for each in KEYWORDS]


def _members(place: Place, owner: str) -> Iterator[Suggestion]:
    if owner == "$":
        yield from (Suggestion(each.name, "parameter") for each in place.inputs())
        return
    yield from (Suggestion(each.name, "field") for each in place.results(owner))
    yield from (_suggested(place, each) for each in _symbols(place) if each.namespace == owner)


def _declared(place: Place) -> list[Suggestion]:
    return [_suggested(place, each) for each in _symbols(place)]


def _symbols(place: Place) -> list[Symbol]:
    names = place.analysis.names
    return [*(names.symbols if names is not None else ()), *prelude()]


def _suggested(place: Place, symbol: Symbol) -> Suggestion:
    return Suggestion(symbol.name, symbol.kind, describe(place.analysis, symbol))


def _arguments(place: Place, before: str) -> list[Parameter]:
    """The parameters of the call whose parenthesis is open."""
    text = _STRING.sub(lambda found: " " * len(found[0]), before[-4_000:])
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[position], 0)
        if depth < 0:
            called = _CALLED.search(text[:position])
            symbol = place.callee(CallExpr(called[1])) if called is not None else None
            return symbol.params if symbol is not None else []
    return []
