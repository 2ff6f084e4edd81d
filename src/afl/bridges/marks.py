"""`@answers`: how a module says which of its functions answers messages to an agent.

@answers("translator")
def translate(text: str, language: str) -> dict:
    return {"text": ...}

Only a mark, so that collecting the functions of a module without any costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from afl.kernel.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])

_MARK = "__afl_answers__"


def answers(agent: str) -> Callable[[Function], Function]:
    """Mark a function as the one that answers messages to an agent: `translator`, or `translator:instance`."""
    kind, separator, instance = agent.partition(":")
    if not kind or (separator and (not instance or ":" in instance)):
        raise InputError(f"an agent is written type or type:instance, got {agent!r}")

    def mark(function: Function) -> Function:
        setattr(function, _MARK, (*getattr(function, _MARK, ()), agent))
        return function

    return mark


def answering(sources: Iterable[Any]) -> Mapping[str, Callable[..., Any]]:
    """The marked functions of some modules, by the agent they answer for; InputError when two answer for one."""
    found: dict[str, Callable[..., Any]] = {}
    for source in sources:
        values = vars(source).values() if not callable(source) else [source]
        marked = (value for value in values if callable(value) and hasattr(value, _MARK))
        for function in dict.fromkeys(marked):  # others may have no hash
            for agent in getattr(function, _MARK, ()):
                if found.setdefault(agent, function) is not function:
                    raise InputError(f"two functions answer for {agent}; leave one out")
    return found
