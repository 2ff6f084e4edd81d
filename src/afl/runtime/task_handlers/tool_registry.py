"""Functions by the facet they serve: by its full name, else by its short one, else by default."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from afl.kernel import event_loop
from afl.runtime.task_handlers.handler import plain

Result = dict[str, Any] | None
ToolFunction = Callable[[dict[str, Any]], Result | Awaitable[Result]]
DefaultFunction = Callable[[str, dict[str, Any]], Result | Awaitable[Result]]


class ToolRegistry:
    """Handlers of event facets. A name without a dot serves every namespace, one with a dot only itself."""

    def __init__(self) -> None:
        self._handlers: dict[str, ToolFunction] = {}
        self._default: DefaultFunction | None = None

    def register(self, event_type: str, handler: ToolFunction) -> None:
        """Serve a facet; the last registration counts. The function is given the step's parameters."""
        self._handlers[event_type] = handler

    def set_default_handler(self, handler: DefaultFunction) -> None:
        """Serve every facet that has no handler of its own; the function is given the facet's name as well."""
        self._default = handler

    @property
    def names(self) -> list[str]:
        """The names that functions are registered under."""
        return list(self._handlers)

    @property
    def has_default(self) -> bool:
        """Whether there is a default handler."""
        return self._default is not None

    def find(self, event_type: str) -> ToolFunction | None:
        """The function registered for a facet, under its full name or its short one; the default is none of these."""
        return self._handlers.get(event_type) or self._handlers.get(event_type.rpartition(".")[2])

    def has_handler(self, event_type: str) -> bool:
        """Whether `handle` would call a function."""
        return self.has_default or self.find(event_type) is not None

    def handle(self, event_type: str, payload: dict[str, Any]) -> Result:
        """What the facet's function says, as plain data; None if it says nothing or there is none."""
        found = self.find(event_type)
        if found is not None:
            answer = found(payload)
        elif self._default is not None:
            answer = self._default(event_type, payload)
        else:
            return None
        given = event_loop.run(_outcome(answer)) if inspect.isawaitable(answer) else answer
        result: Result = plain(given)
        return result


async def _outcome(answer: Awaitable[Result]) -> Result:
    return await answer
