"""The transport over a NATS server: publish and subscribe on one subject, in one thread with an event loop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from afl.kernel.nats_client import NatsClient
from afl.kernel.notify.transport import ServerTransport
from afl.kernel.setting_kinds import mask_url

SUBJECT = "afl.doorbell"

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 1
_FLUSH_SECONDS = 2
_LOST = (TimeoutError, OSError, nats.errors.Error)
_MOST_TOPICS = 1000  # of at most 255 bytes each: well below the server's limit of 1 MB for one message
_inherited: list[Any] = []  # objects of a parent's event loop must not be closed by a child


class NatsTransport(ServerTransport):
    """A message is topics, one to a line. The client reconnects by itself, forever."""

    def __init__(self, url: str) -> None:
        super().__init__(mask_url(url))
        self._url = url
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._client: Client | None = None
        self._warned = False  # once per outage

    def _connection_made(self) -> None:
        self._warned = False
        super()._connection_made()

    def forked(self) -> None:
        super().forked()
        _inherited.append((self._loop, self._wake, self._client))
        self._loop = self._wake = self._client = None

    def _begin(self) -> None:
        self._start("afl-notify-nats")

    def _interrupt(self) -> None:
        with self._guard:
            if self._loop is not None and self._wake is not None:
                self._loop.call_soon_threadsafe(self._wake.set)

    def _work(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        with self._guard:
            self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        try:
            while not self._closing.is_set():
                await self._session(self._wake)
        finally:
            with self._guard:
                self._loop = self._wake = None

    async def _session(self, wake: asyncio.Event) -> None:
        """From the first connection to the closing of the transport; the client reconnects by itself in between."""
        self._client = client = NatsClient()
        try:
            if await self._connect(client, wake):
                await self._serve(client, wake)
        except _LOST as error:
            await self._on_error(error)
        finally:
            self._connection_lost()
            await client.close()

    async def _connect(self, client: Client, wake: asyncio.Event) -> bool:
        """Whether a connection was made; if not, the transport was closed before."""
        attempt = asyncio.create_task(self._subscribe(client))
        while not attempt.done() and not self._closing.is_set():
            called = asyncio.create_task(wake.wait())
            await asyncio.wait([attempt, called], return_when=asyncio.FIRST_COMPLETED)
            called.cancel()
            wake.clear()
        if not attempt.done():
            attempt.cancel()
            await asyncio.wait([attempt])
            return False
        await attempt
        return True

    async def _subscribe(self, client: Client) -> None:
        await client.connect(
            self._url,
            name="afl notifier",
            no_echo=True,  # this process has notified its own subscriptions already
            max_reconnect_attempts=-1,
            reconnect_time_wait=_RETRY_SECONDS,
            ping_interval=10,
            error_cb=self._on_error,
            disconnected_cb=self._on_loss,
            reconnected_cb=self._on_return,
        )
        await client.subscribe(SUBJECT, cb=self._on_message)
        await client.flush(_FLUSH_SECONDS)
        self._connection_made()

    async def _serve(self, client: Client, wake: asyncio.Event) -> None:
        while True:
            # Read before sending, so that the last notifications are sent too.
            closing = self._closing.is_set()
            wake.clear()
            if client.is_connected:
                await self._send(client)
            if closing:
                return
            await wake.wait()

    async def _send(self, client: Client) -> None:
        topics = self._take_unsent()
        try:
            for first in range(0, len(topics), _MOST_TOPICS):
                await client.publish(SUBJECT, "\n".join(topics[first : first + _MOST_TOPICS]).encode())
            if topics:
                await client.flush(_FLUSH_SECONDS)
            self._sent()
        except _LOST:
            self._queue(topics)  # sent again when the connection is back, see `_on_return`

    async def _on_message(self, message: Msg) -> None:
        self.deliver(message.data.decode(errors="replace").split("\n"))

    async def _on_error(self, error: Exception) -> None:
        level = logging.DEBUG if self._warned else logging.WARNING
        _log.log(level, "the notifier lost its connection to %s: %r; connecting again", self.name, error)
        self._warned = True
        if not self._connected.is_set():
            self._connection_lost()

    async def _on_loss(self) -> None:
        self._connection_lost()

    async def _on_return(self) -> None:
        self._connection_made()
        if self._wake is not None:
            self._wake.set()
