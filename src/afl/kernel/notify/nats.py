"""The wire over a NATS server: publish and subscribe on one subject, in one thread with an event loop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from afl.kernel.notify.server_transport import ServerTransport
from afl.kernel.setting_kinds import mask_url

SUBJECT = "afl.doorbell"

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 1
_FLUSH_SECONDS = 2
_LOST = (TimeoutError, OSError, nats.errors.Error)
_MOST_TOPICS = 1000  # of at most 255 bytes each: well below the server's limit of 1 MB for one message
_inherited: list[Any] = []  # what a parent's event loop holds must not be closed by a child


class NatsTransport(ServerTransport):
    """A message is topics, one to a line. The client reconnects by itself, for ever."""

    def __init__(self, url: str) -> None:
        super().__init__(mask_url(url))
        self._url = url
        self._loop: asyncio.AbstractEventLoop | None = None
        self._call: asyncio.Event | None = None
        self._client: Client | None = None
        self._complained = False  # once per outage is enough

    def _is_whole(self) -> None:
        self._complained = False
        super()._is_whole()

    def forked(self) -> None:
        super().forked()
        _inherited.append((self._loop, self._call, self._client))
        self._loop = self._call = self._client = None

    def _begin(self) -> None:
        self._start("afl-notify-nats")

    def _interrupt(self) -> None:
        with self._guard:
            if self._loop is not None and self._call is not None:
                self._loop.call_soon_threadsafe(self._call.set)

    def _work(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        with self._guard:
            self._loop, self._call = asyncio.get_running_loop(), asyncio.Event()
        try:
            while not self._closing.is_set():
                await self._session(self._call)
        finally:
            with self._guard:
                self._loop = self._call = None

    async def _session(self, call: asyncio.Event) -> None:
        """From the first connection to the closing of the wire; the client itself reconnects in between."""
        self._client = client = Client()
        try:
            if await self._connect(client, call):
                await self._serve(client, call)
        except _LOST as error:
            await self._on_error(error)
        finally:
            self._is_broken()
            await client.close()

    async def _connect(self, client: Client, call: asyncio.Event) -> bool:
        """Whether there is a connection; if not, the wire was closed before there was one."""
        attempt = asyncio.create_task(self._subscribe(client))
        while not attempt.done() and not self._closing.is_set():
            called = asyncio.create_task(call.wait())
            await asyncio.wait([attempt, called], return_when=asyncio.FIRST_COMPLETED)
            called.cancel()
            call.clear()
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
        self._is_whole()

    async def _serve(self, client: Client, call: asyncio.Event) -> None:
        while True:
            # Looked at before sending, so that the last notifies are sent too.
            closing = self._closing.is_set()
            call.clear()
            if client.is_connected:
                await self._send(client)
            if closing:
                return
            await call.wait()

    async def _send(self, client: Client) -> None:
        topics = self._take_unsent()
        try:
            for first in range(0, len(topics), _MOST_TOPICS):
                await client.publish(SUBJECT, "\n".join(topics[first : first + _MOST_TOPICS]).encode())
            if topics:
                await client.flush(_FLUSH_SECONDS)
            self._have_sent()
        except _LOST:
            self._put_back(topics)  # sent again when the connection is back, of which `_on_return` tells

    async def _on_message(self, message: Msg) -> None:
        self.notify(message.data.decode(errors="replace").split("\n"))

    async def _on_error(self, error: Exception) -> None:
        level = logging.DEBUG if self._complained else logging.WARNING
        _log.log(level, "notifier %s is out of order: %r; trying again", self.name, error)
        self._complained = True
        if not self._whole.is_set():
            self._is_broken()

    async def _on_loss(self) -> None:
        self._is_broken()

    async def _on_return(self) -> None:
        self._is_whole()
        if self._call is not None:
            self._call.set()
