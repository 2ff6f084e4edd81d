"""The coordinator: the interface of the API document on any broker, and its extensions."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any, Self

from afl.coordination.broker import EXPIRED, Broker
from afl.coordination.delivery import MessageReceiver, MessageSender, Subscriptions
from afl.coordination.errors import CLOSED, CoordinatorClosed, CoordinatorInputError
from afl.coordination.inspection import DeadLetters, Inspection
from afl.coordination.interfaces import MessageCoordinator, MessageMetrics
from afl.coordination.keys import queue_name
from afl.coordination.message_codec import encode_error
from afl.coordination.metrics import InMemoryMessageMetrics, SafeMetrics
from afl.coordination.models import (
    AgentId,
    AgentMessage,
    AuditEntry,
    FailureType,
    MessagePriority,
    MessageResult,
    MessageSubscription,
    MessageType,
    QueueStatistics,
    ReceivedMessage,
)
from afl.coordination.options import CoordinatorOptions, microseconds
from afl.coordination.replies import RequestInbox


class QueueCoordinator(MessageCoordinator):
    """Coordinates over a broker. `async with` closes it at the end; it belongs to one event loop."""

    def __init__(self, broker: Broker, metrics: MessageMetrics | None, options: dict[str, Any]) -> None:
        broker.options = CoordinatorOptions().changed(**options)
        self._broker = broker
        self._meter = SafeMetrics(InMemoryMessageMetrics() if metrics is None else metrics)
        self._posting = MessageSender(broker, self._meter)
        self._subscriptions = Subscriptions(broker)
        self._receiving = MessageReceiver(broker, self._meter, self._subscriptions)
        self._replies = RequestInbox(self._posting, self._receiving)
        self._inspection = Inspection(broker, self._meter)
        self._closed = False
        self.dead_letters = DeadLetters(broker)

    @property
    def options(self) -> CoordinatorOptions:
        """As set by the constructor and `configure`."""
        return self._broker.options

    @property
    def metrics(self) -> MessageMetrics:
        """The given metrics, else counters in memory."""
        return self._meter.metrics

    async def send_message(
        self,
        sender: AgentId,
        recipient: AgentId,
        message: AgentMessage,
        *,
        delay_seconds: float = 0.0,
        ttl_seconds: float | None = None,
    ) -> MessageResult:
        """See the interface. It can be received after `delay_seconds`; after `ttl_seconds` it expires.

        The arguments override the message's own sender and recipient. A duplicate within the window counts as
        delivered.
        """
        self._check_open()
        return await self._posting.send(sender, recipient, message, delay_seconds, ttl_seconds)

    async def broadcast_message(
        self,
        sender: AgentId,
        message: AgentMessage,
        recipients: list[AgentId],
        *,
        delay_seconds: float = 0.0,
        ttl_seconds: float | None = None,
    ) -> list[MessageResult]:
        """See the interface. Each copy names its own recipient; all go in one round trip."""
        self._check_open()
        return await self._posting.broadcast(sender, recipients, message, delay_seconds, ttl_seconds)

    async def receive(
        self, agent_id: AgentId, visibility_timeout: float = 5, *, wait: float = 0.0
    ) -> ReceivedMessage | None:
        """See the interface. With `wait` it blocks up to so many seconds until there is a message."""
        self._check_open()
        found = await self._receiving.batch(queue_name(agent_id), 1, visibility_timeout, wait)
        return found[0] if found else None

    async def receive_batch(
        self, agent_id: AgentId, limit: int, visibility_timeout: float = 5, *, wait: float = 0.0
    ) -> list[ReceivedMessage]:
        """Reserve up to `limit` ready messages; with `wait` it blocks until there is at least one."""
        self._check_open()
        return await self._receiving.batch(queue_name(agent_id), limit, visibility_timeout, wait)

    async def stream(
        self, agent_id: AgentId, visibility_timeout: float = 5
    ) -> AsyncIterator[ReceivedMessage]:
        """`async for received in coordinator.stream(agent)`: messages as they come, until the coordinator closes.

        The body of the loop acknowledges each.
        """
        while True:
            try:
                received = await self.receive(
                    agent_id, visibility_timeout, wait=self.options.fallback_interval
                )
            except CoordinatorClosed:
                return
            if received is not None:
                yield received

    async def ack(self, agent_id: AgentId, token: str) -> bool:
        self._check_open()
        return (await self._broker.ack(queue_name(agent_id), _sound([token])))[0]

    async def ack_batch(self, agent_id: AgentId, tokens: Sequence[str]) -> list[bool]:
        """`ack` of many in one round trip; one result per token."""
        self._check_open()
        return await self._broker.ack(queue_name(agent_id), _sound(tokens))

    async def extend(self, agent_id: AgentId, token: str, visibility_timeout: float = 5) -> bool:
        """Extend a reservation to so many seconds from now; False when it has ended."""
        return (await self.extend_batch(agent_id, [token], visibility_timeout))[0]

    async def extend_batch(
        self, agent_id: AgentId, tokens: Sequence[str], visibility_timeout: float = 5
    ) -> list[bool]:
        """`extend` of many in one round trip; one result per token."""
        self._check_open()
        visible = microseconds("visibility_timeout", visibility_timeout)
        return await self._broker.extend(queue_name(agent_id), _sound(tokens), visible)

    async def release(self, agent_id: AgentId, tokens: Sequence[str]) -> list[bool]:
        """Release messages unprocessed: they keep their position, and no attempt is counted."""
        self._check_open()
        return await self._broker.release(queue_name(agent_id), _sound(tokens))

    async def nack(
        self,
        agent_id: AgentId,
        token: str,
        failure: FailureType = FailureType.TRANSIENT,
        error: str | None = None,
    ) -> bool:
        self._check_open()
        queue, kind = queue_name(agent_id), _failure(failure)
        text = encode_error(error)
        reason = encode_error(f"{kind.value} failure" if error is None else f"{kind.value} failure: {error}")
        share = 1.0 - self.options.jitter * random.random()
        final = kind is FailureType.PERMANENT
        refusal = await self._broker.nack(queue, _sound([token])[0], text, reason, final=final, share=share)
        if refusal is None:
            return False
        self._meter.count(self.metrics.inc_nacks, 1)
        if refusal.burial is not None:
            self._meter.count_dead(queue, [refusal.burial], error)
        elif refusal.delay is not None:
            self._meter.count(self.metrics.inc_retries_scheduled, 1, refusal.delay / 1_000_000)
        return True

    async def withdraw(self, agent_id: AgentId, message_id: str) -> bool:
        """Delete a message by its id, queued or reserved; False when it is not there.

        Its consumer finds the reservation ended. Within `dedup_window` the same id is a duplicate.
        """
        self._check_open()
        if not message_id:
            raise CoordinatorInputError("message_id is empty; expected the id of a message")
        return await self._broker.withdraw(queue_name(agent_id), message_id)

    async def recover_pending(self, agent_id: AgentId | None = None) -> int:
        """See the interface. Dead letters are not counted; `receive` does the same by itself."""
        self._check_open()
        queues = await self._broker.queues() if agent_id is None else [queue_name(agent_id)]
        back = 0
        for queue in queues:
            taken = await self._broker.recover(queue)
            self._meter.count_dead(queue, taken.buried, EXPIRED)
            back += taken.back
        return back

    async def request(
        self,
        sender: AgentId,
        recipient: AgentId,
        payload: dict[str, Any],
        *,
        timeout: float = 30.0,
        priority: MessagePriority = MessagePriority.NORMAL,
    ) -> AgentMessage:
        """Send a request and wait for its response.

        RequestRefused when the queue refuses it, RequestFailed when a Consumer made it a dead letter, RequestTimeout
        when no response arrives in time; the request is then deleted from the queue, unless a consumer has reserved it.
        """
        self._check_open()
        microseconds("timeout", timeout, least=0.001)
        return await self._replies.ask(sender, recipient, payload, timeout, priority)

    async def respond(
        self,
        request: AgentMessage | ReceivedMessage,
        payload: dict[str, Any],
        *,
        sender: AgentId | None = None,
    ) -> MessageResult:
        """Answer a request: to its waiting requester, else into the sender's queue."""
        self._check_open()
        asked = request.queue_message.message if isinstance(request, ReceivedMessage) else request
        return await self._replies.answer(asked, payload, sender or asked.recipient, self.options.reply_ttl)

    async def respond_failure(self, request: ReceivedMessage, error: str, *, sender: AgentId) -> None:
        """Tell a waiting requester that its request is a dead letter; others read the dead letters."""
        self._check_open()
        await self._replies.answer_failure(
            request.queue_message.message, error, sender, self.options.reply_ttl
        )

    def subscribe_to_messages(
        self, agent_id: AgentId, message_types: list[MessageType]
    ) -> MessageSubscription:
        """See the interface. It is stored in the background: `await flush()` waits for it and raises errors."""
        self._check_open()
        return self._subscriptions.begin(agent_id, message_types)

    async def subscribe(self, agent_id: AgentId, message_types: list[MessageType]) -> MessageSubscription:
        """As `subscribe_to_messages`; stored when it returns."""
        self._check_open()
        return await self._subscriptions.add(agent_id, message_types)

    async def unsubscribe(self, subscription: MessageSubscription) -> bool:
        """End a subscription, also another coordinator's; without subscriptions all types are received.

        False when it had ended.
        """
        self._check_open()
        return await self._subscriptions.end(subscription)

    async def flush(self) -> None:
        """Wait for pending subscriptions; raises the first error."""
        await self._subscriptions.flush()

    async def queues(self) -> list[AgentId]:
        """Agents whose queues hold messages or dead letters."""
        self._check_open()
        return await self._inspection.queues()

    async def statistics(self, agent_id: AgentId) -> QueueStatistics:
        """The number of messages of an agent's queue by state; also sets the gauges of the metrics."""
        self._check_open()
        return await self._inspection.statistics(agent_id)

    async def audit_trail(self, agent_id: AgentId, limit: int = 100) -> list[AuditEntry]:
        """The latest lines of a queue's audit trail, oldest first."""
        self._check_open()
        return await self._inspection.trail(agent_id, limit)

    async def configure(
        self,
        *,
        queue_size: int | None = None,
        retry_attempts: int | None = None,
        backoff_base: float | None = None,
        backoff_factor: float | None = None,
        backoff_max: float | None = None,
        **more: Any,
    ) -> None:
        """See the interface; `more` are the other options of CoordinatorOptions."""
        more |= {"queue_size": queue_size, "retry_attempts": retry_attempts, "backoff_base": backoff_base}
        more |= {"backoff_factor": backoff_factor, "backoff_max": backoff_max}
        self._broker.options = self._broker.options.changed(**more)

    async def close(self) -> None:
        """Stop background work. Connections given to it stay open; the queues do not change."""
        if self._closed:
            return
        self._closed = True
        self._receiving.close()
        await self._replies.close()
        try:
            await self.flush()
        finally:
            await self._broker.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise CoordinatorClosed(CLOSED)


def _failure(failure: FailureType) -> FailureType:
    try:
        return FailureType(failure)
    except ValueError as error:
        raise CoordinatorInputError(f"failure is {failure!r}; expected a FailureType") from error


def _sound(tokens: Sequence[str]) -> Sequence[str]:
    for token in tokens:
        if not isinstance(token, str):
            raise CoordinatorInputError(
                f"token is a {type(token).__name__}; expected the text that receive gave"
            )
    return tokens
