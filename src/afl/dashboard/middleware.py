"""Around the pages and the API: headers of every response, limits of a request, and what failed unexpectedly.

The answers here ask nothing of the store, which may be what is broken.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Mapping
from urllib.parse import urlsplit

from anyio import move_on_after
from starlette.datastructures import Headers as RequestHeaders
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afl import __version__
from afl.client.http_client import VERSION_HEADER
from afl.dashboard.api.requests import headers_of, reads_pages, refusal
from afl.dashboard.rendering import ENVIRONMENT, theme_of
from afl.kernel.errors import AgentFlowError
from afl.operations.problems import Problem, RequestTooLarge, ServerAway, ServerDefect, problem_of

METRICS = "/metrics"


def refuse(request: Request, error: AgentFlowError) -> Response:
    """The response of an AgentFlowError."""
    return answer(request, problem_of(error), error.status, headers_of(error.status))


def answer(
    request: Request, problem: Problem, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """A problem as a page for browsers, as text for scrapers, as JSON for programs."""
    if request.scope["path"] == METRICS:
        return PlainTextResponse(f"{problem.message}\n", status, headers)
    if not reads_pages(request):
        return refusal(problem, status, dict(headers or {}))
    template = ENVIRONMENT.get_template("broken.html")
    back = urlsplit(request.headers.get("Referer", "")).path or "/runs"
    text = template.render(theme=theme_of(request), problem=problem, status=status, back=back)
    return HTMLResponse(text, status, headers)


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
            error = RequestTooLarge(f"the request is larger than {self._limit:,} bytes")
            refused = answer(Request(scope), problem_of(error), error.status, {"Connection": "close"})
            await refused(scope, receive, noted)


_log = logging.getLogger(__name__)
_LONGEST_PLACE = 200
_STOPPING = ServerAway("the server is stopping; ask again when it is back")
_DEFECT = ServerDefect("internal server error; see the server's log")


class Defects:
    """Answers what fails behind it, as long as nothing has been answered yet.

    Starlette has a place for that outside of all middleware, where an answer gets no headers and a body that was not
    read breaks the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        request = Request(scope)
        place = (request.method, scope["path"][:_LONGEST_PLACE])
        try:
            await self._app(scope, receive, noted)
        except TooLarge:
            raise
        except ClientDisconnect:
            _log.info("%s %s: the client left, or was too slow, in the middle of its request", *place)
        except AgentFlowError as error:
            if begun:
                raise
            await refuse(request, error)(scope, receive, send)
        except CancelledError:  # uvicorn does that to requests that take longer than its end
            if begun:
                raise
            await refuse(request, _STOPPING)(scope, receive, send)
        except Exception as error:
            if begun:
                raise
            _log.error("%s %s failed", *place, exc_info=error)
            await refuse(request, _DEFECT)(scope, receive, send)
