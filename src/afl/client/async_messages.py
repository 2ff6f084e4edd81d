"""Messages between agents, as the client sees them: `flow.messages`. It needs the extra `coordination`."""

from __future__ import annotations

from typing import Any, Literal

from afl.client.async_calls import AsyncCalls
from afl.operations.message import coordination, queues
from afl.operations.message.coordination import BreakerLine
from afl.operations.message.queues import Letter, Moved, QueueLine


class AsyncMessages:
    """Queues, dead letters, registered agents and circuit breakers, on the Redis that the settings name."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    async def queues(self) -> list[QueueLine]:
        """Every queue that holds messages or dead letters."""
        return await self._calls.call(queues.queues)

    async def agents(self) -> list[dict[str, Any]]:
        """The registered agents, including those that died recently."""
        return await self._calls.call(coordination.agents)

    async def dead_letters(self, agent: str = "", *, limit: int = 100) -> list[Letter]:
        """Dead letters of one agent, or of all, the oldest of each first."""
        return await self._calls.call(queues.dead_letters, agent, limit)

    async def requeue(self, agent: str, dead_ids: list[str] | None = None) -> Moved:
        """Requeue dead letters, all of an agent if none is named."""
        return await self._calls.call(queues.requeue, agent, dead_ids)

    async def purge(self, agent: str, dead_ids: list[str] | None = None) -> Moved:
        """Delete dead letters, all of an agent if none is named."""
        return await self._calls.call(queues.purge, agent, dead_ids)

    async def breakers(self) -> list[BreakerLine]:
        """Every circuit breaker, by name."""
        return await self._calls.call(coordination.breakers)

    async def change_breaker(self, name: str, action: Literal["open", "close", "reset"]) -> BreakerLine:
        """Open, close or reset a circuit breaker in every process."""
        return await self._calls.call(coordination.change_breaker, action, name)
