"""One connection on which a coordinator hears that there is something to receive."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from afl.coordination.waiting import Waiters

_log = logging.getLogger(__name__)


class RedisBell:
    """Subscribed to the channels of all queues that were waited for; rings those who wait.

    What is missed while the connection is down is made good for by ringing everybody: they look, and find the server
    or the error.
    """

    def __init__(self, redis: Redis, waiters: Waiters) -> None:
        self._redis = redis
        self._waiters = waiters
        self._guard = asyncio.Lock()
        self._pubsub: PubSub | None = None
        self._reader: asyncio.Task[None] | None = None
        self._heard: dict[str, asyncio.Future[None]] = {}
        self._queues: dict[str, str] = {}

    async def hear(self, channel: str, queue: str) -> None:
        """Returns when the server has confirmed that it rings this channel here."""
        heard = self._heard.get(channel)
        if heard is None:
            async with self._guard:
                heard = self._heard.get(channel) or await self._subscribe(channel, queue)
        await asyncio.shield(heard)

    async def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.wait([reader])
        await self._hang_up()

    async def _subscribe(self, channel: str, queue: str) -> asyncio.Future[None]:
        if self._pubsub is None:
            self._pubsub = self._redis.pubsub()
        await self._pubsub.subscribe(channel)
        heard = self._heard[channel] = asyncio.get_running_loop().create_future()
        self._queues[channel] = queue
        if self._reader is None:
            self._reader = asyncio.create_task(self._read(self._pubsub), name="coordination bell")
        return heard

    async def _read(self, pubsub: PubSub) -> None:
        try:
            while True:
                self._take_in(await pubsub.get_message(timeout=None))
        except (RedisError, OSError) as error:
            _log.debug("the bell is silent until the server answers again: %s", error)
            await self._lose(error)

    def _take_in(self, message: dict[str, Any] | None) -> None:
        if message is None:
            return
        channel = _text(message["channel"])
        if message["type"] == "message":
            self._waiters.ring(self._queues[channel], int(message["data"]))
        elif message["type"] == "subscribe":
            heard = self._heard.get(channel)
            if (
                heard is None or heard.done()
            ):  # subscribed once more, after a break: rings may have been missed
                self._waiters.ring_all(self._queues[channel])
            else:
                heard.set_result(None)

    async def _lose(self, error: Exception) -> None:
        self._reader = None
        await self._hang_up(error)
        self._waiters.ring_all()

    async def _hang_up(self, error: Exception | None = None) -> None:
        lost, self._heard = self._heard, {}
        for heard in lost.values():
            if heard.done():
                continue
            if error is None:
                heard.cancel()
            else:
                heard.set_exception(error)
                heard.exception()  # seen, should nobody be waiting for it
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            await pubsub.aclose()  # type: ignore[no-untyped-call]


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
