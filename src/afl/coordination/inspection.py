"""Queues as an operator sees them: counts, the audit trail, and dead letters to list, send again or delete."""

from __future__ import annotations

import json
from typing import Any

from afl.coordination.broker import Broker
from afl.coordination.errors import CoordinatorInputError
from afl.coordination.keys import named_agent, queue_name
from afl.coordination.message_codec import moment
from afl.coordination.metrics import MessageGauges, SafeMetrics
from afl.coordination.models import (
    AgentId,
    AgentMessage,
    AuditEntry,
    DeadLetter,
    MessagePriority,
    QueueMessage,
    QueueStatistics,
)

_LEVELS = (MessagePriority.HIGH, MessagePriority.NORMAL, MessagePriority.LOW)


class Inspection:
    """Counts, names and the audit trail."""

    def __init__(self, broker: Broker, meter: SafeMetrics) -> None:
        self._broker = broker
        self._meter = meter

    async def queues(self) -> list[AgentId]:
        """Agents whose queues are not empty."""
        return [named_agent(name) for name in await self._broker.queues()]

    async def statistics(self, agent_id: AgentId) -> QueueStatistics:
        """The number of messages by state; also sets the gauges of the metrics."""
        queue = queue_name(agent_id)
        counts = await self._broker.count(queue)
        ready = sum(counts.ready)
        found = QueueStatistics(
            agent_id=agent_id,
            ready=ready,
            delayed=counts.waiting - ready,
            in_flight=counts.in_flight,
            dead=counts.dead,
            ready_by_priority=dict(zip(_LEVELS, counts.ready, strict=True)),
            oldest_ready_seconds=None if counts.oldest is None else counts.oldest / 1_000_000,
            next_due_seconds=None if counts.due is None else counts.due / 1_000_000,
        )
        self._set_gauges(queue, found)
        return found

    async def trail(self, agent_id: AgentId, limit: int) -> list[AuditEntry]:
        """The latest lines, oldest first."""
        if limit < 1:
            raise CoordinatorInputError(f"limit is {limit}; expected at least 1")
        lines = await self._broker.trail(queue_name(agent_id), -limit, -1)
        return [entry for line in lines if (entry := _entry(line)) is not None]

    def _set_gauges(self, queue: str, found: QueueStatistics) -> None:
        metrics, count = self._meter.metrics, self._meter.count
        if isinstance(metrics, MessageGauges):
            for priority, length in found.ready_by_priority.items():
                count(metrics.set_queue_length, queue, priority.value, length)
            count(metrics.set_queue_length, queue, 0, found.total)
            count(metrics.set_dlq_length, queue, found.dead)


def _entry(line: bytes) -> AuditEntry | None:
    """Parse a line; None for an invalid one."""
    try:
        at, event, known = line.decode(errors="replace").split(" ", 2)
        return AuditEntry(at=moment(int(at)), event=event, message_id=known)
    except ValueError:
        return None


_MOST = 1_000_000


class DeadLetters:
    """The dead letters of all agents."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def list(self, agent_id: AgentId, limit: int = 100, start: int = 0) -> list[DeadLetter]:
        """An agent's dead letters, oldest first."""
        if limit < 1 or start < 0:
            raise CoordinatorInputError(f"limit is {limit}, start {start}; expected at least 1 and 0")
        texts = await self._broker.letters(queue_name(agent_id), start, start + limit - 1)
        return [_read(text) for text in texts]

    async def peek(self, agent_id: AgentId, dead_id: str | None = None) -> DeadLetter | None:
        """The dead letter of an id, which may be that of the message, else the oldest."""
        start = 0
        while letters := await self.list(agent_id, start=start):
            for letter in letters:
                if dead_id is None or dead_id in (letter.dead_id, letter.message_id):
                    return letter
            start += len(letters)
        return None

    async def requeue(self, agent_id: AgentId, dead_id: str | None = None, *, limit: int = _MOST) -> int:
        """Queue one of them again, or the oldest `limit`, without attempts; the number.

        It stops when the queue is full; unreadable messages stay.
        """
        return await self._broker.requeue(queue_name(agent_id), _checked(dead_id), limit)

    async def purge(self, agent_id: AgentId, dead_id: str | None = None) -> int:
        """Delete one of them, or all; the number."""
        return await self._broker.purge(queue_name(agent_id), _checked(dead_id))


def _checked(dead_id: str | None) -> str:
    if dead_id is None:
        return ""
    if not dead_id:
        raise CoordinatorInputError("dead_id is empty; leave it out to mean all dead letters")
    return dead_id


_UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)


def _read(text: bytes) -> DeadLetter:
    """Decode as much as possible."""
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
