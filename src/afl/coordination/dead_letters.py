"""Messages that will not be tried again: to look at, to send once more, to throw away."""

from __future__ import annotations

import json
from typing import Any

from afl.coordination.broker import Broker
from afl.coordination.errors import CoordinatorInputError
from afl.coordination.keys import queue_name
from afl.coordination.models import AgentId, AgentMessage, DeadLetter, MessagePriority, QueueMessage
from afl.coordination.wire import moment

_MOST = 1_000_000


class DeadLetters:
    """The dead letters of all agents."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def list(self, agent_id: AgentId, limit: int = 100, start: int = 0) -> list[DeadLetter]:
        """An agent's dead letters, the oldest first."""
        if limit < 1 or start < 0:
            raise CoordinatorInputError(f"limit is {limit}, start {start}; expected at least 1 and 0")
        texts = await self._broker.letters(queue_name(agent_id), start, start + limit - 1)
        return [_read(text) for text in texts]

    async def peek(self, agent_id: AgentId, dead_id: str | None = None) -> DeadLetter | None:
        """One of them: that of the id, which may be the message's own, else the oldest."""
        start = 0
        while letters := await self.list(agent_id, start=start):
            for letter in letters:
                if dead_id is None or dead_id in (letter.dead_id, letter.message_id):
                    return letter
            start += len(letters)
        return None

    async def requeue(self, agent_id: AgentId, dead_id: str | None = None, *, limit: int = _MOST) -> int:
        """Back in line with no attempt counted: one of them, or the oldest `limit`; how many went.

        It stops when the queue is full; what cannot be read stays dead.
        """
        return await self._broker.requeue(queue_name(agent_id), _checked(dead_id), limit)

    async def purge(self, agent_id: AgentId, dead_id: str | None = None) -> int:
        """Away for good: one of them, or all; how many."""
        return await self._broker.purge(queue_name(agent_id), _checked(dead_id))


def _checked(dead_id: str | None) -> str:
    if dead_id is None:
        return ""
    if not dead_id:
        raise CoordinatorInputError("dead_id is empty; leave it out to mean all dead letters")
    return dead_id


_UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)


def _read(text: bytes) -> DeadLetter:
    """As much of it as can be read."""
    plain = text.decode(errors="replace")
    try:
        letter: dict[str, Any] = json.loads(plain)
        known = {
            "dead_id": letter["dead_id"],
            "reason": letter["reason"],
            "dead_at": moment(letter["dead_at"]),
        }
        if "message" not in letter:
            return DeadLetter(**known, raw=letter["raw"])
        try:
            return DeadLetter(**known, queue_message=_queued(letter))
        except _UNREADABLE:
            return DeadLetter(**known, raw=json.dumps(letter["message"]))
    except _UNREADABLE:
        return DeadLetter(dead_id="", reason="unreadable", dead_at="", raw=plain)


def _queued(letter: dict[str, Any]) -> QueueMessage:
    return QueueMessage(
        message=AgentMessage.model_validate(letter["message"]),
        priority=MessagePriority(letter["priority"]),
        enqueued_at=moment(letter["enqueued_at"]),
        delivery_attempts=letter["delivery_attempts"],
        last_error=letter["last_error"],
    )
