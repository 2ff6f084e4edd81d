"""What every web server of ours keeps to: how long it waits for a request, and how it ends.

Whoever connects and then sends a header or a body drop by drop, or not at all, holds a connection; there is a limit to
that. A request that is whole may take as long as it takes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
import uvicorn
from anyio import current_time, move_on_after
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
BODY_SECONDS = 60.0
_GRACE_SECONDS = 2
_DISCONNECT = {"type": "http.disconnect"}


def server_config(app: ASGIApp) -> uvicorn.Config:
    """The settings of a server for an application."""
    return uvicorn.Config(
        BodyTimeLimit(app, BODY_SECONDS),
        http=_Protocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        proxy_headers=False,  # whoever guesses tokens would choose an address for each guess
    )


class _Protocol(H11Protocol):
    """Closes a connection whose next header has begun, or is the first, and is not whole in time."""

    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_header()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _should_upgrade(self) -> bool:
        """No: it is answered as an ordinary request, without a warning that something would have to be installed."""
        return False

    def _watch_header(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_watching()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_watching(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


class BodyTimeLimit:
    """A body that does not arrive in time is treated like one whose sender has left, who is told, however."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive, self._seconds)
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        await self._app(scope, body.receive, noted)
        if body.is_late and not begun:
            await _too_slow(self._seconds)(scope, receive, send)


class _Body:
    """Messages of one request, until its body is whole within the time."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._until = current_time() + seconds
        self._is_whole = False
        self.is_late = False

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()
        message: Message = _DISCONNECT
        with move_on_after(self._until - current_time()) as scope:
            message = await self._receive()
        self.is_late = self.is_late or scope.cancelled_caught
        self._is_whole = not message.get("more_body", False)
        return message


def _too_slow(seconds: float) -> JSONResponse:
    problem: dict[str, Any] = {
        "code": "too-slow",
        "message": f"the body of the request was not there after {seconds:g} seconds",
        "hint": "Send it at once.",
        "details": {},
    }
    return JSONResponse({"error": problem}, 408, {"Connection": "close"})
