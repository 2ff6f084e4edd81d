"""The bus without a server: the notifier wakes workers, the outbox itself is the stream.

The relay numbers what it publishes; followers in this process and in others continue after the last number they have
seen. Messages outside of the outbox are received in this process only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from afl.kernel.canceling import cancel_and_wait
from afl.kernel.database import Database
from afl.kernel.errors import StoreError
from afl.kernel.notify import Notifier, open_notifier
from afl.kernel.notify import Subscription as NotifierSubscription
from afl.turns.bus.base import Bus, Callback, Published, Subscription, WakeupSubscription, checked_concurrency
from afl.turns.bus.cursor import Cursor
from afl.turns.bus.outbox import OutboxRow, Q
from afl.turns.errors import SubjectError
from afl.turns.message import Message
from afl.turns.protocol.subjects import matches, parse_subject
from afl.turns.store.inbox import topic

PUBLISHED = "turns:published"
_POLL_SECONDS = 1.0  # a notification may be lost
_ROWS = 200
_QUEUE_SIZE = 10_000
_log = logging.getLogger(__name__)


class LocalBus(Bus):
    """On one database. The notifier is opened with it unless one is given."""

    def __init__(self, database: Database, notifier: Notifier | None = None) -> None:
        self._database = database
        self._notifier = notifier
        self._own_notifier = notifier is None
        self._listeners: list[_Listener] = []
        self._running: set[_Running] = set()

    @property
    def notifier(self) -> Notifier:
        assert self._notifier is not None, "the bus was not started"
        return self._notifier

    async def start(self) -> None:
        if self._notifier is None:
            self._notifier = open_notifier(self._database)

    async def close(self) -> None:
        for running in list(self._running):
            await running.close()
        if self._own_notifier and self._notifier is not None:
            self._notifier.close()
            self._notifier = None

    def publish(self, message: Message) -> None:
        if message.subject.endswith(".wakeup"):
            with contextlib.suppress(SubjectError):
                self.notifier.notify(topic(parse_subject(message.subject).target))
        for listener in self._listeners:
            listener.receive(message)

    async def store(self, rows: Sequence[OutboxRow], last: Mapping[str, int]) -> Published:
        """Number the rows: only the relay does, and it records the numbers under its lease."""
        first = await self._last_sequence() + 1
        return Published({row.position: first + place for place, row in enumerate(rows)})

    def stored(self, rows: Sequence[OutboxRow]) -> None:
        self.notifier.notify(PUBLISHED)

    async def subscribe(self, patterns: Iterable[str], callback: Callback) -> Subscription:
        after = await self._last_sequence()
        listener = _Listener(tuple(patterns), callback)
        self._listeners.append(listener)
        return self._start(_Follower(self, listener, after))

    async def consume(
        self, durable: str, patterns: Iterable[str], callback: Callback, *, concurrency: int = 1
    ) -> Subscription:
        room = checked_concurrency(concurrency)
        cursor = Cursor(self._database, durable, tuple(patterns), callback, room)
        await cursor.open()
        return self._start(_Consumer(self, cursor))

    async def listen(self, targets: Iterable[str]) -> WakeupSubscription:
        return _LocalSubscription(self.notifier.subscribe([topic(target) for target in targets]))

    async def following(self, after: int, limit: int) -> list[OutboxRow]:
        """The rows after a sequence, in order."""
        return [
            OutboxRow.of(row) for row in await self._database.fetch(Q.following, after=after, limit=limit)
        ]

    async def _last_sequence(self) -> int:
        rows = await self._database.fetch(Q.last_sequence)
        last: int = rows[0]["sequence"]
        return last

    def forget(self, running: _Running, listener: _Listener | None = None) -> None:
        self._running.discard(running)
        if listener in self._listeners:
            self._listeners.remove(listener)

    def _start(self, running: _Running) -> Subscription:
        self._running.add(running)
        running.start()
        return running


class _Listener:
    """A callback with its patterns; messages are delivered one after another."""

    def __init__(self, patterns: tuple[str, ...], callback: Callback) -> None:
        self._patterns = patterns
        self._callback = callback
        self.queue: asyncio.Queue[Message] = asyncio.Queue(_QUEUE_SIZE)

    def receive(self, message: Message) -> None:
        """A listener whose queue is full misses the message."""
        if self.queue.full():
            _log.debug("%s was missed", message.subject)
        elif any(matches(pattern, message.subject) for pattern in self._patterns):
            self.queue.put_nowait(message)

    async def serve(self) -> None:
        while True:
            message = await self.queue.get()
            try:
                await self._callback(message)
            except Exception:
                _log.exception("a subscriber failed on %s", message.subject)


class _Running(Subscription):
    """A subscription with tasks of its own."""

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._subscription = self._bus.notifier.subscribe([PUBLISHED])
        self._tasks = [asyncio.create_task(self._follow())]

    async def close(self) -> None:
        await cancel_and_wait(self._tasks)
        self._subscription.close()
        self._bus.forget(self)

    async def _follow(self) -> None:
        while True:
            try:
                more = await self._read()
            except StoreError as error:
                _log.warning("cannot read the outbox: %s; trying again", error)
                more = False
            except Exception:  # whatever it is, the loop must go on
                _log.exception("cannot read the outbox; trying again")
                more = False
            if not more:
                await self._subscription.wait_async(_POLL_SECONDS)

    @abstractmethod
    async def _read(self) -> bool:
        """Read the outbox; whether there may be more."""


class _Follower(_Running):
    """Receives what goes through the outbox from now on."""

    def __init__(self, bus: LocalBus, listener: _Listener, after: int) -> None:
        super().__init__(bus)
        self._listener = listener
        self._after = after

    def start(self) -> None:
        super().start()
        self._tasks.append(asyncio.create_task(self._listener.serve()))

    async def close(self) -> None:
        await super().close()
        self._bus.forget(self, self._listener)

    async def _read(self) -> bool:
        rows = await self._bus.following(self._after, _ROWS)
        for row in rows:
            self._listener.receive(row.message)
            self._after = row.sequence or self._after
        return len(rows) == _ROWS


class _Consumer(_Running):
    """Receives everything, with its position in the store."""

    def __init__(self, bus: LocalBus, cursor: Cursor) -> None:
        super().__init__(bus)
        self._cursor = cursor

    async def close(self) -> None:
        await super().close()
        await self._cursor.close()

    async def _read(self) -> bool:
        return await self._cursor.advance()


class _LocalSubscription(WakeupSubscription):
    def __init__(self, subscription: NotifierSubscription) -> None:
        self._subscription = subscription

    async def wait(self, timeout: float | None = None) -> bool:
        return bool(await self._subscription.wait_async(timeout))

    def wake(self) -> None:
        self._subscription.wake()

    async def close(self) -> None:
        self._subscription.close()
