"""Sending and receiving messages, and the subscriptions that select which types are received."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

from afl.coordination.broker import EXPIRED, Broker, Entry, OutgoingMessage, SendOutcome, TakeResult
from afl.coordination.deferred_work import DeferredWork
from afl.coordination.errors import CLOSED, CoordinatorClosed, CoordinatorInputError, MessageCoordinatorError
from afl.coordination.keys import queue_name
from afl.coordination.message_codec import (
    decode_error,
    decode_message,
    encode_error,
    encode_message,
    encode_payload,
    moment,
)
from afl.coordination.metrics import SafeMetrics
from afl.coordination.models import (
    AgentId,
    AgentMessage,
    MessagePriority,
    MessageResult,
    MessageSubscription,
    MessageType,
    QueueMessage,
    ReceivedMessage,
)
from afl.coordination.options import microseconds
from afl.kernel.bounds import LONGEST_NAME
from afl.kernel.errors import PayloadError


class MessageSender:
    """Validates messages, stores them and returns the results."""

    def __init__(self, broker: Broker, meter: SafeMetrics) -> None:
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
        """Send one message to one agent."""
        queue_name(sender)
        queue = queue_name(recipient)
        try:
            parcel = self._parcel(sender, recipient, message, delay, ttl, volatile)
        except PayloadError as error:
            return self._told(message, error)
        with self._counting_errors(1):
            answer = await self._broker.send(queue, parcel)
        return self._told(message, answer)

    async def broadcast(
        self,
        sender: AgentId,
        recipients: Sequence[AgentId],
        message: AgentMessage,
        delay: float,
        ttl: float | None,
    ) -> list[MessageResult]:
        """Send a copy to each, in one round trip."""
        queue_name(sender)
        queues = [queue_name(recipient) for recipient in recipients]
        try:
            parcels = [self._parcel(sender, each, message, delay, ttl, 0) for each in recipients]
        except PayloadError as error:
            return [self._told(message, error) for _ in recipients]
        with self._counting_errors(len(parcels)):
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
    ) -> OutgoingMessage:
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
        return OutgoingMessage(message.message_id, kind.value, priority.value, body, waits, lives, volatile)

    @contextmanager
    def _counting_errors(self, messages: int) -> Iterator[None]:
        """Count the messages that an error of the server keeps from being delivered."""
        try:
            yield
        except MessageCoordinatorError:
            self._meter.count(self._meter.metrics.inc_delivered_error, messages)
            raise

    def _told(self, message: AgentMessage, answer: SendOutcome | Exception) -> MessageResult:
        """A full queue is not counted as a delivery error."""
        metrics = self._meter.metrics
        if isinstance(answer, Exception):
            self._meter.count(metrics.inc_delivered_error, 1)
            return MessageResult(message_id=message.message_id, delivered=False, error=str(answer))
        if answer is SendOutcome.STORED:
            self._meter.count(metrics.inc_delivered_ok, 1)
        reason = "queue full" if answer is SendOutcome.FULL else None
        return MessageResult(message_id=message.message_id, delivered=reason is None, error=reason)


class Subscriptions:
    """Stores the subscriptions of one coordinator, at once or in the background."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._made: dict[str, list[str]] = {}  # ids by queue; other coordinators may have ended some of them
        self._deferred = DeferredWork("a subscription was not stored")

    def begin(self, agent_id: AgentId, message_types: list[MessageType]) -> MessageSubscription:
        """Stored in the background; without a running event loop, by the next `flush` or `of`."""
        subscription = _new(agent_id, message_types)
        if subscription.message_types:
            self._deferred.add(self._store, subscription)
        return subscription

    async def add(self, agent_id: AgentId, message_types: list[MessageType]) -> MessageSubscription:
        """Stored when it returns."""
        subscription = _new(agent_id, message_types)
        await self.flush()
        if subscription.message_types:
            await self._store(subscription)
        return subscription

    async def end(self, subscription: MessageSubscription) -> bool:
        """Whether there was one to end."""
        await self.flush()
        queue = queue_name(subscription.agent_id)
        ended = await self._broker.subscribe(queue, subscription.subscription_id, ())
        left = [each for each in self._made.pop(queue, ()) if each != subscription.subscription_id]
        if left:
            self._made[queue] = left
        return ended

    async def of(self, queue: str) -> Sequence[str]:
        """The ids of the subscriptions of this coordinator for a queue, once they are stored."""
        await self._deferred.settle()
        return self._made.get(queue, ())

    async def flush(self) -> None:
        """Store everything, or raise the first error."""
        await self._deferred.flush()

    async def _store(self, subscription: MessageSubscription) -> None:
        types = [kind.value for kind in subscription.message_types]
        queue = queue_name(subscription.agent_id)
        await self._broker.subscribe(queue, subscription.subscription_id, types)
        self._made.setdefault(queue, []).append(subscription.subscription_id)


def _new(agent_id: AgentId, message_types: list[MessageType]) -> MessageSubscription:
    queue_name(agent_id)
    try:
        types = [MessageType(kind) for kind in message_types]
    except ValueError as error:
        raise CoordinatorInputError(f"message_types: {error}; expected MessageType") from error
    return MessageSubscription(
        subscription_id=f"sub_{uuid4().hex[:12]}", agent_id=agent_id, message_types=types
    )


MAX_BATCH = 1_000


class MessageReceiver:
    """Reserves messages and decodes them."""

    def __init__(self, broker: Broker, meter: SafeMetrics, subscriptions: Subscriptions) -> None:
        self._broker = broker
        self._meter = meter
        self._subscriptions = subscriptions
        self._is_closed = False

    def close(self) -> None:
        """Those who wait raise CoordinatorClosed."""
        self._is_closed = True
        self._broker.wake()

    async def batch(
        self, queue: str, limit: int, visibility_timeout: float, wait: float
    ) -> list[ReceivedMessage]:
        """Up to `limit` messages; with `wait` it blocks until there is at least one."""
        if not isinstance(limit, int) or not 1 <= limit <= MAX_BATCH:
            raise CoordinatorInputError(f"limit is {limit!r}; expected a whole number from 1 to {MAX_BATCH}")
        visible = microseconds("visibility_timeout", visibility_timeout)
        if not wait:
            taken = await self._take(queue, limit, visible, await self._subscriptions.of(queue))
        else:
            taken = await self.wait_for(queue, limit, visible, microseconds("wait", wait) / 1_000_000)
        if not taken.entries:
            return []
        deadline = moment(taken.deadline)
        received = [await self._opened(queue, entry, deadline) for entry in taken.entries]
        return [each for each in received if each is not None]

    async def wait_for(
        self, queue: str, most: int, visible: int, seconds: float, *, keep: bool = True
    ) -> TakeResult:
        """Subscribe first, then take, then wait: no notification is missed."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        with self._broker.waiting(queue) as waiter:
            while True:
                if self._is_closed:
                    raise CoordinatorClosed(CLOSED)
                await self._broker.receive(queue, max(0.0, ends - loop.time()))
                subscriptions = await self._subscriptions.of(queue)
                waiter.is_selective = bool(subscriptions)
                taken = await self._take(queue, most, visible, subscriptions, keep=keep)
                left = ends - loop.time()
                if taken.entries or left <= 0:
                    return taken
                due = None if taken.due is None else taken.due / 1_000_000
                await waiter.wait(min(left, self._broker.options.fallback_interval), due)

    async def _take(
        self, queue: str, most: int, visible: int, subscriptions: Sequence[str], *, keep: bool = True
    ) -> TakeResult:
        taken = await self._broker.take(queue, most, visible, keep=keep, subscriptions=subscriptions)
        if taken.buried:
            self._meter.count_dead(queue, taken.buried, EXPIRED)
        return taken

    async def _opened(self, queue: str, entry: Entry, deadline: str) -> ReceivedMessage | None:
        """Decode a taken entry; an unreadable one becomes a dead letter at once."""
        try:
            queued = queued_message(entry)
        except ValueError as error:
            why = f"unreadable: {error}"
            text = encode_error(why)
            refusal = await self._broker.nack(queue, entry.token, text, text, final=True, share=1.0)
            if refusal is not None and refusal.burial is not None:
                self._meter.count_dead(queue, [refusal.burial], why)
            return None
        return ReceivedMessage(token=entry.token, queue_message=queued, visibility_deadline=deadline)


def queued_message(entry: Entry) -> QueueMessage:
    """Decode an entry; ValueError when it cannot be read."""
    return QueueMessage(
        message=decode_message(entry.body),
        priority=MessagePriority(entry.priority),
        enqueued_at=moment(entry.enqueued),
        delivery_attempts=entry.attempts,
        last_error=decode_error(entry.error),
    )
