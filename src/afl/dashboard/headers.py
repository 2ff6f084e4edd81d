"""What every answer carries, and how much a request may."""

from __future__ import annotations

from anyio import move_on_after
from starlette.datastructures import Headers as RequestHeaders
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afl import __version__
from afl.dashboard.outside import answer
from afl.operations.http_client import VERSION_HEADER
from afl.operations.problems import Problem

_REST_SECONDS = 10.0
_REST_LIMITS = 2
_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # not `no-referrer`: browsers would then send `Origin: null` with our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    VERSION_HEADER: __version__,
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Headers:
    """Adds the headers that keep browsers from harm; nothing but static files may be kept."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


class TooLarge(Exception):
    """More was sent than is taken."""


class RequestBody:
    """The body of one request, counted; what nobody read is taken and thrown away before the answer goes out.

    A server that answers and closes while the other side still writes is a broken connection to most clients: they
    never see the answer.
    """

    def __init__(self, scope: Scope, receive: Receive, limit: int) -> None:
        headers = RequestHeaders(scope=scope)
        self._receive = receive
        self._limit = limit
        self._taken = 0
        self._more = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self._asks_first = "expect" in headers  # and sends nothing before it is told to

    async def read(self) -> Message:
        """The next message; TooLarge behind the limit."""
        message = await self._next()
        if self._taken > self._limit:
            raise TooLarge
        return message

    async def finish(self) -> None:
        """Take the rest, within reason."""
        if self._asks_first:
            return
        with move_on_after(_REST_SECONDS):
            while self._more and self._taken <= _REST_LIMITS * self._limit:
                await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        self._taken += len(message.get("body", b""))
        self._more = self._more and bool(message.get("more_body", False))
        return message


class PayloadLimit:
    """Reads no more of a request than it may carry."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = RequestBody(scope, receive, self._limit)
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            if not begun:
                begun = True
                await body.finish()
            await send(message)

        try:
            await self._app(scope, body.read, noted)
        except TooLarge:
            if begun:
                raise
            text = f"the request is larger than {self._limit:,} bytes"
            problem = Problem("too-large", text)
            refused = answer(Request(scope), problem, 413, {"Connection": "close"})
            await refused(scope, receive, noted)
