"""Tools that are Python functions of this process, sync or async.

def weather(city: str) -> str:
    "The weather in a city."
    return "sunny"

toolbox = Toolbox([weather, local_tool(book, timeout=60)])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name
from afl.models import PythonTool, Tool, tool_from
from afl.turns.tools.outcome import AFTER_EXECUTION, SUSPEND

TOOL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The call a tool is answering. `idempotency_key` is the same however often the call has to be made again."""

    tool_call_id: str
    tool_name: str
    project_id: str
    agent_id: str
    agent_turn_id: str

    @property
    def idempotency_key(self) -> str:
        return f"{self.project_id}/{self.tool_call_id}"


_call: ContextVar[ToolCall] = ContextVar("afl_turns_tool_call")


def current_call() -> ToolCall:
    """The call under way; for the function of a tool, while it is called by a worker."""
    try:
        return _call.get()
    except LookupError:
        raise InputError("current_call() is for the function of a tool while a worker calls it") from None


def enter_call(call: ToolCall) -> None:
    """Make `call` the current one of this context."""
    _call.set(call)


@dataclass(frozen=True)
class LocalTool:
    """A function with what the protocol wants to know of a tool."""

    python: PythonTool
    after_execution: str = SUSPEND
    timeout: float = TOOL_SECONDS

    @property
    def name(self) -> str:
        return self.python.name

    @property
    def tool(self) -> Tool:
        """As the model sees it."""
        return self.python.tool


def local_tool(
    function: Callable[..., Any] | PythonTool | LocalTool,
    *,
    name: str = "",
    after_execution: str = SUSPEND,
    timeout: float = TOOL_SECONDS,
) -> LocalTool:
    """The tool a function is. `after_execution="terminate"`: its answer is the turn's deliverable."""
    if isinstance(function, LocalTool):
        return function
    if after_execution not in AFTER_EXECUTION:
        raise InputError(f"after_execution is {after_execution!r}; expected suspend or terminate")
    if not timeout > 0:
        raise InputError(f"the timeout of a tool is {timeout!r}; expected seconds, more than 0")
    return LocalTool(tool_from(function, name=name), after_execution, timeout)


class Toolbox:
    """The tools of one process by their names."""

    def __init__(self, tools: Iterable[Callable[..., Any] | PythonTool | LocalTool] = ()) -> None:
        self._tools: dict[str, LocalTool] = {}
        for each in tools:
            self.add(each)

    def add(self, function: Callable[..., Any] | PythonTool | LocalTool) -> LocalTool:
        """One more; InputError when another one has its name."""
        tool = local_tool(function)
        known = self._tools.setdefault(tool.name, tool)
        if known is not tool and known.python.function is not tool.python.function:
            raise InputError(f"two tools have the name {tool.name!r}; give one of them another: name=...")
        return known

    def find(self, name: str) -> LocalTool | None:
        return self._tools.get(name)

    def __iter__(self) -> Iterator[LocalTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def near(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known."""
    names = sorted(known)
    close = near_name(name, names)
    return f"did you mean {close}?" if close else f"known are: {', '.join(names) or 'none'}"
