"""Messages out of queues, at once or when there are some."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from afl.coordination.broker import EXPIRED, Broker, Entry, Taken
from afl.coordination.errors import CoordinatorInputError
from afl.coordination.meter import Meter
from afl.coordination.models import MessagePriority, QueueMessage, ReceivedMessage
from afl.coordination.options import microseconds
from afl.coordination.subscriptions import Subscriptions
from afl.coordination.wire import decode_error, decode_message, encode_error, moment

MAX_BATCH = 1_000


class Receiving:
    """Reserves messages and reads them."""

    def __init__(self, broker: Broker, meter: Meter, subscriptions: Subscriptions) -> None:
        self._broker = broker
        self._meter = meter
        self._subscriptions = subscriptions

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
    ) -> Taken:
        """Hear first, then look, then wait: nothing that comes meanwhile is missed."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        with self._broker.waiting(queue) as waiter:
            while True:
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
    ) -> Taken:
        taken = await self._broker.take(queue, most, visible, keep=keep, subscriptions=subscriptions)
        if taken.buried:
            self._meter.mourn(queue, taken.buried, EXPIRED)
        return taken

    async def _opened(self, queue: str, entry: Entry, deadline: str) -> ReceivedMessage | None:
        """What a taken entry says; one that cannot be read is dead at once, and nobody's reservation."""
        try:
            queued = queued_message(entry)
        except ValueError as error:
            why = f"unreadable: {error}"
            text = encode_error(why)
            refusal = await self._broker.nack(queue, entry.token, text, text, final=True, share=1.0)
            if refusal is not None and refusal.burial is not None:
                self._meter.mourn(queue, [refusal.burial], why)
            return None
        return ReceivedMessage(token=entry.token, queue_message=queued, visibility_deadline=deadline)


def queued_message(entry: Entry) -> QueueMessage:
    """What an entry says; ValueError when it cannot be read."""
    return QueueMessage(
        message=decode_message(entry.body),
        priority=MessagePriority(entry.priority),
        enqueued_at=moment(entry.enqueued),
        delivery_attempts=entry.attempts,
        last_error=decode_error(entry.error),
    )
