"""Clients of a principal: one synchronous, one for asyncio, with the same requests.

    with Client(settings) as client:
        run_id = client.call(RunWorkflow(workflow_id="etl.daily")).run_id

A request is answered within the timeout (a long poll within its own wait plus the timeout), else PrincipalAway is
raised. With `retry=True` a request without an answer is sent again, as often and at the interval that the settings
say; a request that was answered, even with an error, is never sent again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from types import TracebackType
from typing import Any, Self, TypeVar

from afl.fleet.errors import PrincipalAway
from afl.fleet.protocol import Reply, parse_reply
from afl.fleet.requests import Ping, Request
from afl.fleet.security import ClientKeys, load_client_keys
from afl.fleet.settings import FleetSettings
from afl.fleet.zeromq import zmq

A = TypeVar("A")
_log = logging.getLogger(__name__)


class _BaseClient:
    """What both clients share: the address, the keys and the timeouts."""

    def __init__(self, settings: FleetSettings, keys: ClientKeys | None = None) -> None:
        self.settings = settings
        self.address = settings.address(settings.principal_port)
        self._keys = keys if keys is not None else load_client_keys(settings.keys_folder)

    def _prepare(self, socket: zmq.Socket[bytes] | zmq.asyncio.Socket) -> None:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IPV6, int(self.settings.is_ipv6))
        if self._keys is not None:
            self._keys.secure(socket)
        try:
            socket.connect(self.address)
        except zmq.ZMQError as error:
            socket.close()
            raise PrincipalAway(
                f"{self.address} is not an address to connect to: {error.strerror}"
            ) from error

    def _timeout_ms(self, request: Request[Any]) -> int:
        return self.settings.default_zmq_timeout_ms + request.longest_wait_ms()

    def _attempts(self, retry: bool) -> range:
        return range(1, (self.settings.retry_attempts if retry else 1) + 1)

    def _unavailable(self, attempts: int) -> PrincipalAway:
        tried = f" after {attempts} attempts" if attempts > 1 else ""
        return PrincipalAway(f"the principal at {self.address} does not answer{tried}")

    def _log_silence(self, attempt: int) -> None:
        if attempt == 1:
            _log.warning("no answer from %s; sending the request again", self.address)

    def _log_reconnected(self, attempt: int) -> None:
        if attempt > 1:
            _log.info("Successfully re-connected with principal after %d attempt(s)", attempt)


class Client(_BaseClient):
    """The synchronous client; for one thread at a time."""

    def __init__(self, settings: FleetSettings, keys: ClientKeys | None = None) -> None:
        super().__init__(settings, keys)
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None

    def call(self, request: Request[A], *, retry: bool = False) -> A:
        """The principal's answer; raises RequestRefused and PrincipalFailed."""
        return request.read(self.ask(request, retry=retry))

    def ping(self, timeout_ms: int) -> None:
        """PrincipalAway unless the principal answers a PING within that time, or the timeout if that is less."""
        if self._once(Ping().frame(), min(timeout_ms, self._timeout_ms(Ping()))) is None:
            raise self._unavailable(attempts=1)

    def ask(self, request: Request[Any], *, retry: bool = False) -> Reply:
        """The reply itself."""
        frame, timeout = request.frame(), self._timeout_ms(request)
        attempts = self._attempts(retry)
        for attempt in attempts:
            reply = self._once(frame, timeout)
            if reply is not None:
                self._log_reconnected(attempt)
                return reply
            if attempt < len(attempts):
                self._log_silence(attempt)
                time.sleep(self.settings.default_zmq_timeout_ms / 1000)
        raise self._unavailable(len(attempts))

    def close(self) -> None:
        self._drop()
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _once(self, frame: bytes, timeout_ms: int) -> Reply | None:
        if self._socket is None:
            self._socket = self._context.socket(zmq.REQ)
            self._prepare(self._socket)
        answered = False
        try:
            self._socket.send(frame)
            if self._socket.poll(timeout_ms):
                answered = True
                return parse_reply(self._socket.recv())
            return None
        finally:
            if not answered:  # a REQ socket that waits for an answer can send nothing else
                self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None


class AsyncClient(_BaseClient):
    """The asyncio client; concurrent calls use a connection each, which is reused."""

    def __init__(self, settings: FleetSettings, keys: ClientKeys | None = None) -> None:
        super().__init__(settings, keys)
        self._context = zmq.asyncio.Context()
        self._idle: list[zmq.asyncio.Socket] = []

    async def call(self, request: Request[A], *, retry: bool = False) -> A:
        """The principal's answer; raises RequestRefused and PrincipalFailed."""
        return request.read(await self.ask(request, retry=retry))

    async def ask(self, request: Request[Any], *, retry: bool = False) -> Reply:
        """The reply itself."""
        return await self.ask_frame(request.frame(), self._timeout_ms(request), retry=retry)

    async def ask_frame(self, frame: bytes, timeout_ms: int, *, retry: bool = False) -> Reply:
        """The reply to an encoded frame."""
        attempts = self._attempts(retry)
        for attempt in attempts:
            reply = await self._once(frame, timeout_ms)
            if reply is not None:
                self._log_reconnected(attempt)
                return reply
            if attempt < len(attempts):
                self._log_silence(attempt)
                await asyncio.sleep(self.settings.default_zmq_timeout_ms / 1000)
        raise self._unavailable(len(attempts))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close(linger=0)
        self._context.destroy(linger=0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _once(self, frame: bytes, timeout_ms: int) -> Reply | None:
        socket = self._idle.pop() if self._idle else self._open()
        answered = False
        try:
            await socket.send(frame)
            if await socket.poll(timeout_ms):
                answered = True
                return parse_reply(await socket.recv())
            return None
        finally:
            if answered and not self._context.closed:
                self._idle.append(socket)
            else:
                socket.close(linger=0)

    def _open(self) -> zmq.asyncio.Socket:
        try:
            socket = self._context.socket(zmq.REQ)
        except zmq.ZMQError as error:  # too many open files: the next attempt may succeed
            raise PrincipalAway(f"no socket to ask {self.address} with: {error.strerror}") from error
        self._prepare(socket)
        return socket
