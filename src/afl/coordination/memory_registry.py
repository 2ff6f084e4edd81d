"""A registry in memory: for one process, and for tests. Registries on one board share their agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from afl.coordination.agent_record import AgentEvent, Record, listed
from afl.coordination.interfaces import MessageCoordinator
from afl.coordination.registry_base import DEAD_RETENTION_S, BaseAgentRegistry
from afl.kernel.codec import decode, encode


@dataclass(slots=True)
class _Entry:
    data: str
    capabilities: str
    kept_until: float
    due: float  # when it is dead, and then when it is looked after again
    dead: bool = False


@dataclass(slots=True)
class AgentBoard:
    """The agents that registries share; `clock` gives seconds since 1970."""

    clock: Callable[[], float] = time.time
    entries: dict[str, _Entry] = field(default_factory=dict)
    watchers: list[asyncio.Queue[AgentEvent]] = field(default_factory=list)

    def forget_old(self) -> float:
        """Delete expired records; the current time."""
        now = self.clock()
        for name in [name for name, entry in self.entries.items() if entry.kept_until <= now]:
            del self.entries[name]
        return now

    def tell(self, event: dict[str, Any]) -> None:
        """Send an event to all watchers."""
        for watcher in self.watchers:
            watcher.put_nowait(AgentEvent.model_validate({**event, "at": self.clock()}))


class InMemoryAgentRegistry(BaseAgentRegistry):
    """In-memory implementation of AgentRegistry; see BaseAgentRegistry for what it does."""

    def __init__(
        self,
        heartbeat_ttl_s: float = 30.0,
        heartbeat_interval_s: float | None = None,
        enable_events: bool = False,
        *,
        dead_retention_s: float = DEAD_RETENTION_S,
        coordinator: MessageCoordinator | None = None,
        board: AgentBoard | None = None,
    ) -> None:
        super().__init__(heartbeat_ttl_s, heartbeat_interval_s, enable_events, dead_retention_s, coordinator)
        self._board = AgentBoard() if board is None else board

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[AgentEvent]]:
        """See BaseAgentRegistry."""
        received: asyncio.Queue[AgentEvent] = asyncio.Queue()

        async def events() -> AsyncIterator[AgentEvent]:
            while True:
                yield await received.get()

        self._board.watchers.append(received)
        try:
            yield events()
        finally:
            self._board.watchers.remove(received)

    async def _read(self, name: str) -> str | bytes | None:
        self._board.forget_old()
        entry = self._board.entries.get(name)
        return None if entry is None else entry.data

    async def _write(self, records: Sequence[Record], events: Sequence[dict[str, Any] | None]) -> list[str]:
        now = self._board.forget_old()
        for record, event in zip(records, events, strict=True):
            self._write_one(record, event, now)
        return [
            name for name, entry in self._board.entries.items() if entry.due <= now and self._bury(name, now)
        ]

    def _write_one(self, record: Record, event: dict[str, Any] | None, now: float) -> None:
        before = self._board.entries.get(record.name)
        data = encode({**decode(record.data), "last_heartbeat": now})
        until = now + self.heartbeat_ttl_s
        self._board.entries[record.name] = _Entry(
            data, record.capabilities, until + self.dead_retention_s, until
        )
        if before is not None and before.dead and self.enable_events:
            self._board.tell({"event": "revived", "agent": record.name})
        if event is not None:
            self._board.tell(event)

    def _bury(self, name: str, now: float) -> bool:
        entry = self._board.entries[name]
        if not entry.dead and self.enable_events:
            self._board.tell({"event": "died", "agent": name})
        entry.dead, entry.due = True, now + self.heartbeat_ttl_s
        return True

    async def _erase(self, name: str, event: dict[str, Any] | None) -> None:
        if self._board.entries.pop(name, None) is not None and event is not None:
            self._board.tell(event)

    async def _entries(self, *, capable: bool = False) -> list[dict[str, Any]]:
        now = self._board.forget_old()
        found = (
            listed(name, entry.data, entry.capabilities, now)
            for name, entry in self._board.entries.items()
            if entry.capabilities or not capable
        )
        return [entry for entry in found if entry is not None]
