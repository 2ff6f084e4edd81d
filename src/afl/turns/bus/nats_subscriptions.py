"""Subscriptions on NATS, and the publication of one outbox row to a stream."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription
from nats.js import JetStreamContext

from afl.kernel.bounds import cut
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.codec import decode_as, encode
from afl.kernel.errors import PayloadError
from afl.turns.bus.base import Callback, Subscription, WakeupSubscription
from afl.turns.bus.outbox import OutboxRow
from afl.turns.message import Message
from afl.turns.protocol import headers as names

MESSAGE_ID = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
REFUSED = (nats.errors.MaxPayloadError, nats.errors.BadSubjectError, PayloadError, UnicodeError)
WRONG_LAST = 10071  # the server's code for an expected sequence that is not the last
LOST = (TimeoutError, OSError, nats.errors.Error, nats.js.errors.Error)
_REMEMBERED = 4096
_log = logging.getLogger(__name__)


class Group(Subscription):
    """Subscriptions and tasks that end together."""

    def __init__(self) -> None:
        self.parts: list[NatsSubscription] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def close(self) -> None:
        await cancel_and_wait(self.tasks)
        for part in self.parts:
            await unsubscribe(part)


class NatsWakeups(WakeupSubscription):
    def __init__(self, subscriptions: set[NatsWakeups], bus: str, suffixes: tuple[str, ...]) -> None:
        self.parts: list[NatsSubscription] = []
        self.suffixes = suffixes  # of the subjects it listens to
        self._bus = bus
        self._subscriptions = subscriptions
        self._news = asyncio.Event()
        self._rang = False
        self._loop = asyncio.get_running_loop()

    async def receive(self, message: Msg) -> None:
        if (message.headers or {}).get(names.BUS) != self._bus:
            self.notify()

    def notify(self) -> None:
        self._rang = True
        self._news.set()

    async def wait(self, timeout: float | None = None) -> bool:
        try:
            await asyncio.wait_for(self._news.wait(), timeout)
        except TimeoutError:
            return False
        rang, self._rang = self._rang, False
        self._news.clear()
        return rang

    def wake(self) -> None:
        self._loop.call_soon_threadsafe(self._news.set)

    async def close(self) -> None:
        self._subscriptions.discard(self)
        for part in self.parts:
            await unsubscribe(part)


async def unsubscribe(part: NatsSubscription | JetStreamContext.PullSubscription) -> None:
    try:
        await part.unsubscribe()
    except LOST as error:
        _log.debug("a subscription was gone already: %r", error)


async def guarded(callback: Callback, message: Msg) -> bool:
    """Whether the callback succeeded; a message that is no JSON map is dropped."""
    try:
        payload: dict[str, Any] = decode_as(message.data, dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _log.warning("a message on %s is not a JSON map: %s", cut(message.subject, 200), cut(str(error), 200))
        return True
    try:
        await callback(Message(message.subject, dict(message.headers or {}), payload))
    except Exception:
        _log.exception("a subscriber failed on %s", message.subject)
        return False
    return True


class ConcurrentHandler:
    """Handles up to so many messages of a stream at once, and acknowledges each when it was handled."""

    def __init__(self, callback: Callback, concurrency: int, ack_wait: float) -> None:
        self._callback = callback
        self._room = asyncio.Semaphore(concurrency)
        self._ack_wait = ack_wait
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle_next(self, fetch: Callable[[], Awaitable[Msg | None]]) -> None:
        """Fetch a message once there is room for it, and begin to handle it."""
        await self._room.acquire()
        try:
            message = await fetch()
        except BaseException:
            self._room.release()
            raise
        if message is None:
            self._room.release()
            return
        task = asyncio.create_task(self._handle(message))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        """Cancel what is being handled; the server delivers it again."""
        await cancel_and_wait(self._tasks)

    async def _handle(self, message: Msg) -> None:
        at_work = asyncio.create_task(keep_working(message, self._ack_wait / 3))
        try:
            taken = await guarded(self._callback, message)
        finally:
            at_work.cancel()
        try:
            await (message.ack() if taken else message.nak(delay=0.2))
        except LOST as error:
            _log.warning(
                "%s was handled, but not acknowledged: %r; it is delivered again", message.subject, error
            )

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()


async def keep_working(message: Msg, seconds: float) -> None:
    """Tell the server periodically that the message is being handled, so that it is not delivered again."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await message.in_progress()
        except LOST as error:
            _log.debug("the heartbeat of %s failed: %r", message.subject, error)


def repeated(message: Msg, seen: OrderedDict[str, None]) -> bool:
    """Whether a message was received before: a relay that is refused and retries reaches plain subscribers twice."""
    name = (message.headers or {}).get(MESSAGE_ID)
    if name is None:
        return False
    if name in seen:
        return True
    seen[name] = None
    if len(seen) > _REMEMBERED:
        seen.popitem(last=False)
    return False


async def store_one(js: JetStreamContext, stream: str, row: OutboxRow, last: int) -> int:
    """Publish a row behind the last sequence of its subject; the sequence it got, now or before."""
    while True:
        headers = {**row.message.headers, MESSAGE_ID: row.out_id, EXPECTED: str(last)}
        data = encode(dict(row.message.payload)).encode()
        try:
            answer = await js.publish(row.message.subject, data, headers=headers)
            return answer.seq
        except nats.js.errors.APIError as error:
            if error.err_code != WRONG_LAST:
                raise
        found, last = await _look_back(js, stream, row, last)
        if found:
            return last


async def _look_back(js: JetStreamContext, stream: str, row: OutboxRow, last: int) -> tuple[bool, int]:
    """Whether the row is on the stream already, behind the sequence we know, and the last of its subject now.

    A relay may have died between publishing and recording; another one, or a stranger, may have published since.
    """
    subject, place = row.message.subject, last
    while True:
        try:
            message = await js.get_msg(stream, seq=place + 1, subject=subject, next=True)
        except nats.js.errors.NotFoundError:
            break
        place = message.seq or place + 1
        if (message.headers or {}).get(MESSAGE_ID) == row.out_id:
            return True, place
    try:
        newest = await js.get_last_msg(stream, subject)
    except nats.js.errors.NotFoundError:
        return False, 0  # all of them are too old to be kept
    return False, newest.seq or 0
