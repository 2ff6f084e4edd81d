# Generated from async_messages.py by `make docs`; change that file.
"""Messages between agents, as the client sees them: `flow.messages`. It needs the extra `coordination`."""

from __future__ import annotations

from typing import Any, Literal

from afl.client.calls import Calls
from afl.operations.message import coordination, queues
from afl.operations.message.coordination import BreakerLine
from afl.operations.message.queues import Letter, Moved, QueueLine


class Messages:
    """Queues, dead letters, registered agents and circuit breakers, on the Redis that the settings name."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def queues(self) -> list[QueueLine]:
        """Every queue that holds messages or dead letters."""
        return self._calls.call(queues.queues)

    def agents(self) -> list[dict[str, Any]]:
        """The registered agents, including those that died recently."""
        return self._calls.call(coordination.agents)

    def dead_letters(self, agent: str = "", *, limit: int = 100) -> list[Letter]:
        """Dead letters of one agent, or of all, the oldest of each first."""
        return self._calls.call(queues.dead_letters, agent, limit)

    def requeue(self, agent: str, dead_ids: list[str] | None = None) -> Moved:
        """Requeue dead letters, all of an agent if none is named."""
        return self._calls.call(queues.requeue, agent, dead_ids)

    def purge(self, agent: str, dead_ids: list[str] | None = None) -> Moved:
        """Delete dead letters, all of an agent if none is named."""
        return self._calls.call(queues.purge, agent, dead_ids)

    def breakers(self) -> list[BreakerLine]:
        """Every circuit breaker, by name."""
        return self._calls.call(coordination.breakers)

    def change_breaker(self, name: str, action: Literal["open", "close", "reset"]) -> BreakerLine:
        """Open, close or reset a circuit breaker in every process."""
        return self._calls.call(coordination.change_breaker, action, name)
