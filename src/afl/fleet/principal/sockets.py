"""The three sockets: requests (ROUTER), log lines of old agents (PULL), published lines (XPUB).

Every request is a task of its own, so that a long poll delays no other. A ROUTER serves plain REQ peers: their
envelope, up to the empty frame, is sent back as it came.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from afl.fleet.principal.context import Answer
from afl.fleet.protocol import client_error
from afl.fleet.security import KeyAuthenticator, PrincipalKeys
from afl.fleet.settings import FleetSettings
from afl.fleet.zeromq import zmq
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.errors import ServerError

_log = logging.getLogger(__name__)
_LARGEST = 16 * 1024 * 1024
_BACKLOG = 200_000  # queued lines per subscriber before it misses some
# A connection whose peer is gone without closing it, as when its machine is switched off, ends within two minutes.
_KEEPALIVE = {
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 60,
    zmq.TCP_KEEPALIVE_INTVL: 15,
    zmq.TCP_KEEPALIVE_CNT: 4,
}
_SEVERAL = Answer(client_error("ParseError: a request is one frame"))


class Sockets:
    """Bound on construction; `close` releases the ports."""

    def __init__(self, settings: FleetSettings, keys: PrincipalKeys | None) -> None:
        self._context = zmq.asyncio.Context()
        self._keys = keys
        self.authenticator = None if keys is None else KeyAuthenticator(self._context, keys)
        self._open: list[zmq.Socket[Any]] = []
        self.api = self._context.socket(zmq.ROUTER)
        self.logs = self._context.socket(zmq.PULL)
        # Not an asyncio socket: it is read only when there is something to send.
        self.live: zmq.Socket[bytes] = zmq.Context.shadow(self._context.underlying).socket(zmq.XPUB)
        try:
            self._bind(self.api, settings, settings.principal_port)
            self.api.setsockopt(zmq.ROUTER_MANDATORY, 1)  # sending to a disconnected peer is an error
            self._bind(self.logs, settings, settings.logs_listening_port)
            self.live.setsockopt(zmq.SNDHWM, _BACKLOG)
            self._bind(self.live, settings, settings.logs_publishing_port)
        except BaseException:
            self.close()
            raise

    def ports(self) -> tuple[int, int, int]:
        """The ports in use: requests, received log lines, published log lines."""
        found = [int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]) for socket in self._open]
        return found[0], found[1], found[2]

    def close(self) -> None:
        """Answers in flight get a moment to be sent."""
        if self.authenticator is not None:
            self.authenticator.close()
        for socket in (self.api, self.logs, self.live):
            socket.close(linger=500)
        self._context.term()

    def _bind(self, socket: zmq.Socket[Any], settings: FleetSettings, port: int) -> None:
        self._open.append(socket)
        socket.setsockopt(zmq.MAXMSGSIZE, _LARGEST)
        socket.setsockopt(zmq.IPV6, int(settings.is_ipv6))
        for option, value in _KEEPALIVE.items():
            socket.setsockopt(option, value)
        if self._keys is not None:
            self._keys.secure(socket)
        address = settings.address(port or "*")
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise ServerError(
                f"cannot listen on {address}: {error.strerror}; is another principal running, or is the host wrong?"
            ) from error


class RequestServer:
    """Receives requests from the ROUTER and sends each its answer when it is ready."""

    def __init__(self, socket: zmq.asyncio.Socket, answer: Callable[[bytes], Awaitable[Answer]]) -> None:
        self._socket = socket
        self._answer = answer
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Run until canceled."""
        while True:
            parts = await self._socket.recv_multipart()
            envelope, body = _split(parts)
            if envelope is None:
                _log.debug("a message without an envelope was dropped")
                continue
            task = asyncio.create_task(self._handle(envelope, body))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def finish(self, seconds: float) -> None:
        """Wait for the requests in flight, then cancel the rest."""
        if self._open:
            await asyncio.wait(self._open, timeout=seconds)
        await cancel_and_wait(self._open)

    async def _handle(self, envelope: list[bytes], body: list[bytes]) -> None:
        answer = await self._answer(body[0]) if len(body) == 1 else _SEVERAL
        try:
            await self._socket.send_multipart([*envelope, answer.reply.frame()], flags=zmq.NOBLOCK)
        except zmq.ZMQError as error:
            _log.debug("a peer disconnected before its answer was sent: %s", error)
            if answer.undo is not None:
                await answer.undo()


def _split(parts: list[bytes]) -> tuple[list[bytes] | None, list[bytes]]:
    """The envelope with its final empty frame, and the body."""
    with suppress(ValueError):
        end = parts.index(b"", 1) + 1
        return parts[:end], parts[end:]
    return None, []
