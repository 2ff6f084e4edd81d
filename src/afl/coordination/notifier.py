"""The connection on which a coordinator receives notifications of new messages."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError

from afl.coordination.broker import Waiters
from afl.coordination.errors import CLOSED, CoordinatorClosed
from afl.kernel.canceling import cancel_and_wait

_log = logging.getLogger(__name__)

PATIENCE_S = 5.0  # for the server to confirm a subscription
_DIGITS = 10
_NO_RETRY = Retry(NoBackoff(), 0, supported_errors=())


class RedisNotifier:
    """Subscribed to the channels of all queues with waiting receivers; notifies them.

    After a lost connection all receivers are notified: they poll, and find messages or the error. A notification is
    only a hint: a subscription that is not confirmed in time counts as a lost connection.
    """

    def __init__(self, redis: Redis, waiters: Waiters, patience: float = PATIENCE_S) -> None:
        self._redis = redis
        self._waiters = waiters
        self._patience = patience
        self._guard = asyncio.Lock()
        self._pubsub: PubSub | None = None
        self._reader: asyncio.Task[None] | None = None
        self._received: dict[str, asyncio.Future[None]] = {}
        self._queues: dict[str, str] = {}
        self._usual_retry = _NO_RETRY
        self._is_closed = False

    async def receive(self, channel: str, queue: str, seconds: float) -> None:
        """Return when the server has confirmed the subscription to a channel, at the latest after so long."""
        received = self._received.get(channel) or await self._subscribe(channel, queue)
        if not received.done():
            pubsub, wait = self._pubsub, min(seconds, self._patience)
            await asyncio.wait([received], timeout=wait)
            if not received.done() and wait == self._patience:
                await self._connection_lost(pubsub, TimeoutError("a subscription was not confirmed"))
        if received.done() and not received.cancelled():
            received.result()

    async def close(self) -> None:
        self._is_closed = True
        await self._disconnect(None)

    async def _subscribe(self, channel: str, queue: str) -> asyncio.Future[None]:
        """A broken connection is often noticed only here, so another one is made; if that breaks as well, it raises."""
        async with self._guard:
            with suppress(ConnectionError):
                return await self._send(channel, queue)
            return await self._send(channel, queue)

    async def _send(self, channel: str, queue: str) -> asyncio.Future[None]:
        """The future exists before the command is sent: the reply may be read before this continues."""
        if self._is_closed:
            raise CoordinatorClosed(CLOSED)
        received = self._received[channel] = asyncio.get_running_loop().create_future()
        self._queues[channel] = queue
        pubsub = self._pubsub = self._pubsub or self._redis.pubsub()
        try:
            await self._connect(pubsub)
            await pubsub.subscribe(channel)
            if self._pubsub is pubsub and self._reader is None:
                self._reader = asyncio.create_task(self._read(pubsub), name="coordination notifier")
        except BaseException as error:
            if self._received.get(channel) is received:
                del self._received[channel]
            _end(received, error if isinstance(error, Exception) else None)
            if isinstance(error, ConnectionError):
                await self._connection_lost(pubsub, error)
            elif isinstance(error, Exception) and self._pubsub is not pubsub:  # the driver says anything then
                raise ConnectionError("the connection was closed meanwhile") from error
            raise
        finally:
            if self._pubsub is not pubsub:  # it may have connected again
                await self._close(pubsub)
        return received

    async def _connect(self, pubsub: Any) -> None:
        """A connection that raises when it breaks: the driver would connect again, also in two tasks at once."""
        if not pubsub.connection:
            await pubsub.connect()
            self._usual_retry = pubsub.connection.retry
            pubsub.connection.retry = _NO_RETRY

    async def _close(self, pubsub: Any) -> None:
        if pubsub.connection is not None:
            pubsub.connection.retry = self._usual_retry  # it goes back to the pool
        await pubsub.aclose()

    async def _read(self, pubsub: PubSub) -> None:
        try:
            while True:
                self._read_message(await pubsub.get_message(timeout=None))
        except Exception as error:
            await self._connection_lost(pubsub, error)

    def _read_message(self, message: dict[str, Any] | None) -> None:
        queue = None if message is None else self._queues.get(_text(message["channel"]))
        if message is None or queue is None:
            return
        received = self._received.get(_text(message["channel"]))
        if message["type"] == "message":
            self._notify(queue, message["data"])
        elif message["type"] == "subscribe" and received is not None and not received.done():
            received.set_result(None)

    def _notify(self, queue: str, data: bytes | str) -> None:
        """Wake one receiver per message; an invalid notification counts as one, since polling costs little."""
        if len(data) < _DIGITS and data.isascii() and data.isdigit():
            self._waiters.notify(queue, int(data))
        else:
            self._waiters.notify_all(queue)

    async def _connection_lost(self, pubsub: PubSub | None, error: Exception) -> None:
        """The connection is lost; waiting receivers poll, and the next one to wait connects again."""
        if pubsub is None or self._pubsub is not pubsub:
            return
        _log.debug("no notifications until the server answers again: %s", error)
        await self._disconnect(error)
        self._waiters.notify_all()

    async def _disconnect(self, error: Exception | None) -> None:
        lost, self._received = self._received, {}
        pubsub, self._pubsub = self._pubsub, None
        reader, self._reader = self._reader, None
        for received in lost.values():
            _end(received, error)
        try:
            if reader is not None and reader is not asyncio.current_task():
                await cancel_and_wait([reader])
        finally:
            if pubsub is not None:
                await self._close(pubsub)


def _end(received: asyncio.Future[None], error: Exception | None) -> None:
    """Resolve the futures that wait for a subscription; without an error their receivers poll."""
    if received.done():
        return
    if error is None or isinstance(error, TimeoutError):
        received.cancel()
    else:
        received.set_exception(error)
        received.exception()  # retrieved, in case no receiver waits for it


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
