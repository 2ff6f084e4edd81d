"""What tools and prompt functions need besides their arguments: opened once for each worker, closed with it.

@asynccontextmanager
async def deps():
    async with open_stock("stock.db") as stock:
        yield Shop(stock)

def left(context: AgentContext[Shop], item: str) -> int:
    "How many are left."
    return context.deps.stock.count(item)
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, TypeVar

from afl.kernel.errors import InputError

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class AgentContext(Generic[D]):
    """Where a tool or a prompt function is called: its dependencies, and the turn. A prompt function has no call."""

    deps: D
    project_id: str = ""
    agent_id: str = ""
    agent_turn_id: str = ""
    tool_call_id: str = ""


context_var: ContextVar[AgentContext[Any]] = ContextVar("afl_turns_agent_context")


class Dependencies:
    """The dependencies of one worker. `source`: the object, or a function that returns it or opens it.

    A function may return a context manager, asynchronous or not, whose value they are, or be a coroutine function.
    """

    def __init__(self, source: Any = None) -> None:
        self._source = source
        self._stack = AsyncExitStack()
        self.value: Any = None

    async def open(self) -> None:
        """Open them; what is opened already is closed if that fails."""
        async with AsyncExitStack() as stack:
            made = self._source() if callable(self._source) else self._source
            if inspect.isawaitable(made):
                made = await made
            if isinstance(made, AbstractAsyncContextManager):
                made = await stack.enter_async_context(made)
            elif isinstance(made, AbstractContextManager):
                made = stack.enter_context(made)
            self.value = made
            self._stack = stack.pop_all()

    async def close(self) -> None:
        await self._stack.aclose()


def with_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its parameter of the type AgentContext, which is filled in when a worker calls it."""
    name = _context_parameter(function)
    if name is None:
        return function

    def given(arguments: dict[str, Any]) -> dict[str, Any]:
        return {name: current_context(), **arguments}

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def bound(**arguments: Any) -> Any:
            return await function(**given(arguments))
    else:

        @wraps(function)
        def bound(**arguments: Any) -> Any:
            return function(**given(arguments))

    signature = inspect.signature(function)
    kept = [each for each in signature.parameters.values() if each.name != name]
    bound.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    bound.__annotations__ = {key: kind for key, kind in bound.__annotations__.items() if key != name}
    return bound


def current_context() -> AgentContext[Any]:
    """The context of the tool that a worker calls now."""
    try:
        return context_var.get()
    except LookupError:
        raise InputError(
            "an AgentContext is filled in when a worker calls the tool; in a test, pass one"
        ) from None


def _context_parameter(function: Any) -> str | None:
    if not callable(function):  # told where its schema is made
        return None
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = typing.get_type_hints(target)
    except (NameError, TypeError):  # told, with the name of the tool, where its schema is made
        return None
    found = [name for name, kind in hints.items() if name != "return" and _is_context(kind)]
    if len(found) > 1:
        raise InputError(f"{function!r} has two parameters of the type AgentContext")
    return found[0] if found else None


def _is_context(kind: Any) -> bool:
    return kind is AgentContext or typing.get_origin(kind) is AgentContext
