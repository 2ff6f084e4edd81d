"""Handlers: plain functions that do the work of event facets.

    @handler("news.Summarize")
    def summarize(text: str) -> dict:
        return {"summary": text[:80]}

A function's parameters are the facet's, as dataclasses, pydantic models, dates and the like if they are annotated so;
it may ask for `context` beside them. It answers with a map, a dataclass or a pydantic model of the facet's returns.
`async def` works as well, and so does whatever else gives a coroutine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from afl.kernel import event_loop
from afl.kernel.errors import InputError
from afl.runtime.entities import params_of
from afl.runtime.errors import WorkCanceled
from afl.runtime.program.values import unknown_name
from afl.runtime.task_handlers.handler_context import HandlerContext
from afl.runtime.task_handlers.parameter_types import converted, typed_parameters

__all__ = ["Callback", "Handler", "HandlerContext", "Handlers", "TaskHandler", "handler", "plain"]

Function = TypeVar("Function", bound=Callable[..., Any])

_MARK = "__afl_facets__"


def handler(facet: str) -> Callable[[Function], Function]:
    """Mark a function as the handler of an event facet (`ns.Facet`, or `Facet` for that name in any namespace)."""
    if callable(facet):
        name = getattr(facet, "__name__", "work")
        raise InputError(
            f'handler needs the name of a facet: write @handler("namespace.Facet") above {name}, not @handler'
        )

    def mark(function: Function) -> Function:
        marked = function.__func__ if isinstance(function, staticmethod | classmethod) else function
        setattr(marked, _MARK, (*getattr(marked, _MARK, ()), facet))
        return function

    return mark


class Handler:
    """A function with what is needed to call it."""

    def __init__(self, facet: str, function: Callable[..., Any]) -> None:
        self.facet = facet
        self.function = function
        parameters = _parameters(facet, function)
        self._wants_context = any(parameter.name == "context" for parameter in parameters)
        self._takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        self._names = {parameter.name for parameter in parameters} - {"context"}
        self._types = typed_parameters(function)

    def __call__(self, payload: Mapping[str, Any], context: HandlerContext) -> Any:
        """Do the work; the answer is plain data."""
        given = params_of(payload)
        if not self._takes_all:
            surplus = [name for name in given if name not in self._names]
            if surplus:
                reason = unknown_name("parameter", surplus[0], self._names)
                raise InputError(f"the handler of {self.facet} does not take what the facet gives: {reason}")
        if self._types:
            given = converted(given, self._types, self.facet)
        if self._wants_context:
            given["context"] = context
        answer = self.function(**given)
        return plain(_awaited(answer, context) if inspect.iscoroutine(answer) else answer)


class Callback:
    """A function that takes the facet's parameters as one map, as the pollers of the specification register it."""

    def __init__(self, facet: str, function: Callable[[dict[str, Any]], Any]) -> None:
        self.facet = facet
        self._function = function

    def __call__(self, payload: Mapping[str, Any], context: HandlerContext) -> Any:
        """Do the work; the answer is plain data."""
        return plain(self._function(dict(payload)))


class TaskHandler(Protocol):
    """What does the work of a facet."""

    facet: str

    def __call__(self, payload: Mapping[str, Any], context: HandlerContext) -> Any:
        """Do the work; the answer is plain data."""


def _parameters(facet: str, function: Any) -> list[inspect.Parameter]:
    if not callable(function):
        raise InputError(f"the handler of {facet} is {function!r:.80}; expected a function")
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError as error:  # a function in C
        raise InputError(
            f"the parameters of the handler of {facet}, {function!r:.80}, cannot be read; "
            "write a function that calls it"
        ) from error


def _awaited(answer: Coroutine[Any, Any, Any], context: HandlerContext) -> Any:
    """What a coroutine returns; if the work is canceled, so is the coroutine."""
    try:
        return event_loop.run(answer, context.on_cancel)
    except asyncio.CancelledError as error:
        raise WorkCanceled("the work was canceled") from error


def plain(answer: Any) -> Any:
    """A handler's answer as plain data."""
    if isinstance(answer, dict):
        return answer
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        return dataclasses.asdict(answer)
    dump = getattr(answer, "model_dump", None)
    return dump(mode="json") if callable(dump) else answer


class Handlers:
    """Handlers by facet name. A dotless name serves every namespace; a dotted one only itself."""

    any_event = False  # whether it serves whatever facet there is

    def __init__(self, handlers: Iterable[TaskHandler] = ()) -> None:
        self._by_name: dict[str, TaskHandler] = {}
        for each in handlers:
            self.add(each)

    @classmethod
    def of(cls, source: Mapping[str, Callable[..., Any]] | Any) -> Handlers:
        """From a map of functions by facet name, a marked function, or the marked ones of a module or an object."""
        if isinstance(source, Handlers):
            return source
        if isinstance(source, Mapping):
            return cls(Handler(name, function) for name, function in source.items())
        members = [source] if hasattr(source, _MARK) else _members(source)
        marked = (value for value in members if callable(value) and hasattr(value, _MARK))
        functions = dict.fromkeys(marked)  # others may have no hash
        return cls(Handler(name, each) for each in functions for name in getattr(each, _MARK, ()))

    def add(self, each: TaskHandler) -> None:
        """Add a handler; one facet has one handler."""
        # The store keeps the names, and could not read others again.
        if not isinstance(each.facet, str) or not each.facet:
            raise InputError(f"a handler is registered for {each.facet!r:.80}; expected the name of a facet")
        if each.facet in self._by_name:
            raise InputError(f"there are two handlers for {each.facet}")
        self._by_name[each.facet] = each

    def put(self, each: TaskHandler) -> None:
        """Add a handler, in place of the one its facet had."""
        self._by_name[each.facet] = each

    def __iter__(self) -> Iterator[TaskHandler]:
        return iter(self._by_name.values())

    def find(self, facet: str) -> TaskHandler | None:
        """The handler of a facet: by its full name, else by its short one."""
        return self._by_name.get(facet) or self._by_name.get(facet.rpartition(".")[2])

    def serves(self, facet: str) -> bool:
        """Whether there is a handler for a facet."""
        return self.find(facet) is not None

    @property
    def names(self) -> list[str]:
        """The names handlers are registered under."""
        return list(self._by_name)


def _members(source: Any) -> Iterator[Any]:
    """The attributes of a module or object, with the marked methods of its class bound to it."""
    yield from getattr(source, "__dict__", {}).values()
    marked = {
        name
        for kind in type(source).__mro__
        for name, value in vars(kind).items()
        if hasattr(getattr(value, "__func__", value), _MARK) and name not in getattr(source, "__dict__", {})
    }
    yield from (getattr(source, name) for name in sorted(marked))
