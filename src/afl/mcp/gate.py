"""The gate before MCP over HTTP: lets only those in whose token is known, if there are any tokens."""

from __future__ import annotations

from collections.abc import Callable

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from afl.kernel.errors import AccessError, Unauthenticated
from afl.mcp.clients import ADDRESS_HEADER, token_of
from afl.operations.access import TokenCheck

Note = Callable[[str, AccessError], None]


class Gate:
    """Tells those behind it from where a request comes; `note` is told what was refused, and of whom."""

    def __init__(self, app: ASGIApp, token_check: TokenCheck, note: Note) -> None:
        self._app = app
        self._token_check = token_check
        self._note = note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address = scope["client"][0] if scope.get("client") else "unknown"
        error = self._refusal(Headers(scope=scope), address)
        if error is None:
            await self._app({**scope, "headers": _with_address(scope, address)}, receive, send)
            return
        if self._token_check.worth_noting(address):
            await to_thread.run_sync(self._note, address, error)
        problem = {"code": error.code, "message": str(error), "hint": error.hint, "details": {}}
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
        await JSONResponse({"error": problem}, error.status, headers)(scope, receive, send)

    def _refusal(self, headers: Headers, address: str) -> AccessError | None:
        if not self._token_check.demands_token:
            return None
        if "authorization" not in headers:  # clients look first, and then ask their user for a token
            return Unauthenticated("a token is needed: Authorization: Bearer ...")
        try:
            self._token_check.check(token_of(headers), address)
        except AccessError as error:
            return error
        return None


def _with_address(scope: Scope, address: str) -> list[tuple[bytes, bytes]]:
    """The headers, with ours in the place of whatever the client called so."""
    name = ADDRESS_HEADER.encode()
    kept = [each for each in scope["headers"] if each[0].lower() != name]
    return [*kept, (name, address.encode())]
