"""Handlers compared with the facets that they serve, before anything is called."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name
from afl.runtime.program.built_in_steps import BUILT_IN
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.policies import BRIDGES
from afl.runtime.program.program import Program
from afl.runtime.task_handlers.handler import Handler, Handlers

_NO_MAP = (str, bytes, int, float, bool, list, tuple, set, frozenset)


class HandlerMismatch(InputError, hint="Correct the function or the facet; both places are shown."):
    """Functions do not match the facets that they handle."""


def check_handlers(handlers: Handlers, program: Program) -> None:
    """HandlerMismatch if a handler does not fit its facet in this program."""
    found = mismatches(handlers, program)
    if found:
        raise HandlerMismatch("\n".join(found))


def mismatches(handlers: Handlers, program: Program) -> list[str]:
    """What does not fit, a line each, with the places of the function and the facet."""
    return [
        f"{_place(each.function)}: {problem} ({_facet_place(program, facet)})"
        for facet in _event_facets(program).values()
        if isinstance(each := handlers.find(facet.name), Handler)
        for problem in _problems(each.function, facet)
    ]


def near_misses(handlers: Handlers, program: Program) -> list[str]:
    """Handlers of facets that are not there, where one of almost that name has none. They may be of other programs."""
    facets = _event_facets(program)
    known = {*facets, *(name.rpartition(".")[2] for name in facets)}
    unserved = {
        name: facet
        for name, facet in facets.items()
        if name not in BUILT_IN
        and not handlers.serves(name)
        and not any(mixin.target.rpartition(".")[2] in BRIDGES for mixin in facet.mixins)
    }
    return [
        f"{_place(each.function)}: it is the handler of {each.facet}, which is not an event facet; "
        f"did you mean {near!r}? ({_facet_place(program, unserved[near])})"
        for each in handlers
        if isinstance(each, Handler) and each.facet not in known and (near := _near(each.facet, unserved))
    ]


def _near(name: str, facets: Iterable[str]) -> str:
    """The facet of almost that name, in the same namespace if it has one."""
    namespace, _, short = name.rpartition(".")
    own = {each.rpartition(".")[2]: each for each in facets if namespace in ("", each.rpartition(".")[0])}
    return own.get(near_name(short, own), "")


def _event_facets(program: Program) -> dict[str, Declaration]:
    return {name: each for name, each in program.declarations.items() if each.is_event}


def _problems(function: Callable[..., Any], facet: Declaration) -> Iterator[str]:
    parameters = inspect.signature(function).parameters.values()
    by_name = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    by_position = {each.name for each in parameters if each.kind is each.POSITIONAL_ONLY}
    named = {each.name for each in by_name} - {"context"}
    given = {field.name for field in facet.params}
    called = getattr(function, "__name__", "the function")
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        for name in sorted(given - named):
            if name in by_position:
                yield f"{called}() takes {name!r} by position only, and {facet.name} gives it by name"
                continue
            near = near_name(name, named - given)
            hint = f"; did you mean {near!r}?" if near else ""
            yield f"{called}() does not take {name!r}, which {facet.name} gives{hint}"
    needed = {each.name for each in by_name if each.default is each.empty}
    for name in sorted(needed - given - {"context"}):
        yield f"{called}() needs {name!r}, which {facet.name} does not give"
    yield from _return_problems(function, called, facet)


def _return_problems(function: Callable[..., Any], called: str, facet: Declaration) -> Iterator[str]:
    """Of an annotation that can be read; most functions have none, or one that says little."""
    required = {field.name for field in facet.returns or () if field.default is None}
    kind = _return_kind(function)
    if not required or kind is inspect.Signature.empty:
        return
    gives = f"{facet.name} returns ({', '.join(sorted(required))})"
    if kind in (None, type(None)) or kind in _NO_MAP or typing.get_origin(kind) in _NO_MAP:
        shown = getattr(kind, "__name__", str(kind))
        yield f"{called}() is annotated to return {shown}; {gives}, so it returns a map, a dataclass or a model"
        return
    if (fields := _fields(kind)) is not None and (missing := sorted(required - fields)):
        yield f"{called}() returns {kind.__name__}, which has no {missing[0]!r}; {gives}"


def _return_kind(function: Callable[..., Any]) -> Any:
    try:
        return typing.get_type_hints(function).get("return", inspect.Signature.empty)
    except Exception:  # a name that is only known to type checkers
        return inspect.Signature.empty


def _fields(kind: Any) -> set[str] | None:
    """The fields of a dataclass, a TypedDict or a model; None for what has none to know."""
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    if typing.is_typeddict(kind):
        return set(typing.get_type_hints(kind))
    known = getattr(kind, "model_fields", None)
    return set(known) if isinstance(known, dict) else None


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", repr(function))
    path = Path(code.co_filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}:{code.co_firstlineno}"


def _facet_place(program: Program, facet: Declaration) -> str:
    line = (facet.ast.get("location") or {}).get("line")
    source = program.source or "the program"
    return f"{facet.name} in {source}:{line}" if line else f"{facet.name} in {source}"
