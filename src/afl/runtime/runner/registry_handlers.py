"""A ToolRegistry as the worker sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.runtime.runner.system_tasks import SystemTasks
from afl.runtime.task_handlers.handler import HandlerContext, Handlers, TaskHandler
from afl.runtime.task_handlers.tool_registry import ToolRegistry


class RegistryHandlers(Handlers):
    """Handlers that a registry has at the moment of the call, and others beside them.

    `topics`, if any are given, are the only names that are claimed.
    """

    def __init__(self, registry: ToolRegistry, topics: list[str], others: Handlers | None = None) -> None:
        super().__init__()
        self._registry = registry
        self._topics = topics
        self._others = others or Handlers()

    @property
    def any_event(self) -> bool:  # type: ignore[override]
        """With a default handler it serves whatever facet there is, unless topics say which."""
        return self._registry.has_default and not self._topics

    @property
    def names(self) -> list[str]:
        """The names to claim by."""
        registered = [name for name in self._registry.names if name not in SystemTasks.names]
        return list(self._topics) or list(dict.fromkeys([*registered, *self._others.names]))

    def serves(self, facet: str) -> bool:
        """Whether there is a handler for a facet, and topics do not leave it to others."""
        named = not self._topics or facet in self._topics or facet.rpartition(".")[2] in self._topics
        return named and super().serves(facet)

    def find(self, facet: str) -> TaskHandler | None:
        """By its full name, then its short one, then by default."""
        if self._registry.has_handler(facet) and (
            self._registry.find(facet) is not None or self._others.find(facet) is None
        ):
            return _Tool(facet, self._registry)
        return self._others.find(facet)


class _Tool:
    def __init__(self, facet: str, registry: ToolRegistry) -> None:
        self.facet = facet
        self._registry = registry

    def __call__(self, payload: Mapping[str, Any], context: HandlerContext) -> Any:
        return self._registry.handle(self.facet, dict(payload))
