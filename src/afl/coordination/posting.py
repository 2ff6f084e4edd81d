"""Messages into queues."""

from __future__ import annotations

from collections.abc import Sequence

from afl.coordination.broker import Admission, Broker, Parcel
from afl.coordination.errors import CoordinatorInputError
from afl.coordination.keys import queue_name
from afl.coordination.meter import Meter
from afl.coordination.models import AgentId, AgentMessage, MessagePriority, MessageResult, MessageType
from afl.coordination.options import microseconds
from afl.coordination.wire import encode_message, encode_payload
from afl.kernel.bounds import LONGEST_NAME
from afl.kernel.errors import PayloadError


class Posting:
    """Checks a message, stores it and tells what came of it."""

    def __init__(self, broker: Broker, meter: Meter) -> None:
        self._broker = broker
        self._meter = meter

    async def send(
        self,
        sender: AgentId,
        recipient: AgentId,
        message: AgentMessage,
        delay: float = 0.0,
        ttl: float | None = None,
        volatile: int = 0,
    ) -> MessageResult:
        """One message to one agent."""
        queue_name(sender)
        queue = queue_name(recipient)
        try:
            parcel = self._parcel(sender, recipient, message, delay, ttl, volatile)
        except PayloadError as error:
            return self._told(message, error)
        return self._told(message, await self._broker.send(queue, parcel))

    async def broadcast(
        self,
        sender: AgentId,
        recipients: Sequence[AgentId],
        message: AgentMessage,
        delay: float,
        ttl: float | None,
    ) -> list[MessageResult]:
        """A copy to each, in one round trip."""
        queue_name(sender)
        queues = [queue_name(recipient) for recipient in recipients]
        try:
            parcels = [self._parcel(sender, each, message, delay, ttl, 0) for each in recipients]
        except PayloadError as error:
            return [self._told(message, error) for _ in recipients]
        answers = await self._broker.send_all(list(zip(queues, parcels, strict=True)))
        return [self._told(message, answer) for answer in answers]

    def _parcel(
        self,
        sender: AgentId,
        recipient: AgentId,
        message: AgentMessage,
        delay: float,
        ttl: float | None,
        volatile: int,
    ) -> Parcel:
        waits = microseconds("delay_seconds", delay) if delay else 0
        lives = 0 if ttl is None else microseconds("ttl_seconds", ttl, least=0.000_001)
        if lives and lives <= waits:
            raise CoordinatorInputError(
                f"ttl_seconds is {ttl!r} and delay_seconds {delay!r}: it would end before it could arrive"
            )
        if not 0 < len(message.message_id) <= LONGEST_NAME:
            length = len(message.message_id)
            raise CoordinatorInputError(f"message_id has {length:,} characters; expected 1 to {LONGEST_NAME}")
        try:
            kind, priority = MessageType(message.message_type), MessagePriority(message.priority)
        except ValueError as error:
            raise CoordinatorInputError(f"message {message.message_id!r}: {error}") from error
        payload = encode_payload(message.payload, self._broker.options.max_payload_bytes)
        body = encode_message(message, kind, priority, sender, recipient, payload)
        return Parcel(message.message_id, kind.value, priority.value, body, waits, lives, volatile)

    def _told(self, message: AgentMessage, answer: Admission | Exception) -> MessageResult:
        """A full queue is no error of delivery and not counted as one."""
        metrics = self._meter.metrics
        if isinstance(answer, Exception):
            self._meter.count(metrics.inc_delivered_error, 1)
            return MessageResult(message_id=message.message_id, delivered=False, error=str(answer))
        if answer is Admission.STORED:
            self._meter.count(metrics.inc_delivered_ok, 1)
        reason = "queue full" if answer is Admission.FULL else None
        return MessageResult(message_id=message.message_id, delivered=reason is None, error=reason)
