"""One connection on which a coordinator hears that there is something to receive."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError

from afl.coordination.broker import Waiters
from afl.kernel.cancelling import cancel_and_wait

_log = logging.getLogger(__name__)

PATIENCE_S = 5.0  # for the server to confirm a subscription
_DIGITS = 10


class RedisNotifier:
    """Subscribed to the channels of all queues that were waited for; notifies those who wait.

    What is missed while the connection is down is made good for by ringing everybody: they look, and find the server
    or the error. A notification is a hint and nobody may hang on it: a subscription that is not confirmed counts as
    a lost connection.
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

    async def receive(self, channel: str, queue: str, seconds: float) -> None:
        """Returns when the server has confirmed that it notifies this channel here, at the latest after so long."""
        received = self._received.get(channel) or await self._subscribe(channel, queue)
        if not received.done():
            pubsub, wait = self._pubsub, min(seconds, self._patience)
            await asyncio.wait([received], timeout=wait)
            if not received.done() and wait == self._patience:
                await self._lose(pubsub, TimeoutError("a subscription was not confirmed"))
        if received.done() and not received.cancelled():
            received.result()

    async def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await cancel_and_wait([reader])
        await self._hang_up(None)

    async def _subscribe(self, channel: str, queue: str) -> asyncio.Future[None]:
        """The future is there before the server is asked: its answer may be read before this goes on."""
        received = self._received[channel] = asyncio.get_running_loop().create_future()
        self._queues[channel] = queue
        try:
            async with self._guard:
                pubsub = self._pubsub = self._pubsub or self._redis.pubsub()
                try:
                    await pubsub.subscribe(channel)
                except ConnectionError:
                    # One that breaks says little; if the server is away, the next says so too.
                    await pubsub.subscribe(channel)
                if self._pubsub is pubsub and self._reader is None:
                    self._reader = asyncio.create_task(self._read(pubsub), name="coordination notifier")
        except BaseException as error:
            if self._received.get(channel) is received:
                del self._received[channel]
            _end(received, error if isinstance(error, Exception) else None)
            raise
        return received

    async def _read(self, pubsub: PubSub) -> None:
        try:
            while True:
                self._take_in(await pubsub.get_message(timeout=None))
        except Exception as error:
            await self._lose(pubsub, error)

    def _take_in(self, message: dict[str, Any] | None) -> None:
        queue = None if message is None else self._queues.get(_text(message["channel"]))
        if message is None or queue is None:
            return
        received = self._received.get(_text(message["channel"]))
        if message["type"] == "message":
            self._notify(queue, message["data"])
        elif message["type"] == "subscribe" and received is not None and not received.done():
            received.set_result(None)
        elif message["type"] == "subscribe":  # once more, after a break: notifies may have been missed
            self._waiters.notify_all_topics(queue)

    def _notify(self, queue: str, data: bytes | str) -> None:
        """So many messages came; who says anything else is no peer of ours, and looking costs little."""
        if len(data) < _DIGITS and data.isascii() and data.isdigit():
            self._waiters.notify(queue, int(data))
        else:
            self._waiters.notify_all_topics(queue)

    async def _lose(self, pubsub: PubSub | None, error: Exception) -> None:
        """That connection notifies no more; whoever waits looks again, and the next to wait makes another."""
        if pubsub is None or self._pubsub is not pubsub:
            return
        _log.debug("the notifier is silent until the server answers again: %s", error)
        reader, self._reader = self._reader, None
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
        await self._hang_up(error)
        self._waiters.notify_all_topics()

    async def _hang_up(self, error: Exception | None) -> None:
        lost, self._received = self._received, {}
        pubsub, self._pubsub = self._pubsub, None
        for received in lost.values():
            _end(received, error)
        if pubsub is not None:
            await pubsub.aclose()  # type: ignore[no-untyped-call]


def _end(received: asyncio.Future[None], error: Exception | None) -> None:
    """Tell those who wait for it; without an error they go on and look."""
    if received.done():
        return
    if error is None or isinstance(error, TimeoutError):
        received.cancel()
    else:
        received.set_exception(error)
        received.exception()  # seen, should nobody be waiting for it


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
