"""What can be told of a queue from outside."""

from __future__ import annotations

from afl.coordination.broker import Broker
from afl.coordination.errors import CoordinatorInputError
from afl.coordination.keys import named_agent, queue_name
from afl.coordination.meter import Meter
from afl.coordination.metrics import MessageGauges
from afl.coordination.models import AgentId, AuditEntry, MessagePriority, QueueStatistics
from afl.coordination.wire import moment

_LEVELS = (MessagePriority.HIGH, MessagePriority.NORMAL, MessagePriority.LOW)


class Inspection:
    """Counts, names and the audit trail."""

    def __init__(self, broker: Broker, meter: Meter) -> None:
        self._broker = broker
        self._meter = meter

    async def queues(self) -> list[AgentId]:
        """Agents whose queues hold something."""
        return [named_agent(name) for name in await self._broker.queues()]

    async def statistics(self, agent_id: AgentId) -> QueueStatistics:
        """How many messages are in which state; the metrics' gauges are set to it."""
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
        """The latest lines, the oldest of them first."""
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
    """None for a line that is none of ours."""
    try:
        at, event, known = line.decode(errors="replace").split(" ", 2)
        return AuditEntry(at=moment(int(at)), event=event, message_id=known)
    except ValueError:
        return None
