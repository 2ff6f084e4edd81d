"""The desk of whoever asks: over stdio the user of this machine, over HTTP whoever the token belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from anyio import to_thread
from mcp.server.mcpserver import Context

from afl.kernel.errors import Unauthenticated
from afl.kernel.settings import Settings
from afl.operations.access import Caller, Users
from afl.operations.desk import Desk, LocalDesk
from afl.operations.remote import RemoteDesk
from afl.runtime.persistence import PersistenceAPI

P = ParamSpec("P")
T = TypeVar("T")
ADDRESS_HEADER = "afl-client-address"
"""In which the gate says from where a request came."""


class Desks(Protocol):
    """Knows the desk of a request."""

    def of(self, headers: Mapping[str, str] | None) -> Desk:
        """The desk of whoever sent these headers; there are none over stdio."""


class OneDesk:
    """The same for everybody: there is only one who can ask."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def of(self, headers: Mapping[str, str] | None) -> Desk:
        return self._desk


class DesksByToken:
    """One for each user, with that user's role."""

    def __init__(self, store: PersistenceAPI, settings: Settings, users: Users) -> None:
        self._store = store
        self._settings = settings
        self._users = users

    def of(self, headers: Mapping[str, str] | None) -> Desk:
        given = headers or {}
        user = self._users.owner_of(token_of(given))
        if user is None:
            raise Unauthenticated("the token is not known here")
        origin = f"mcp, {given.get(ADDRESS_HEADER, 'unknown')}"
        return LocalDesk(self._store, self._settings, Caller(user.name, user.role, origin))


class DesksAtServer:
    """One for each user at another server, which is asked with that user's token and not with our own: it decides."""

    def __init__(self, url: str) -> None:
        self._url = url

    def of(self, headers: Mapping[str, str] | None) -> Desk:
        return RemoteDesk(self._url, token_of(headers or {}))


def token_of(headers: Mapping[str, str]) -> str:
    """The token of an Authorization header; empty if there is none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


class Asker:
    """Does operations for tools and resources, each on a thread of its own."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    async def do(
        self,
        context: Context[Any, Any],
        function: Callable[Concatenate[Any, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The function's result, as the desk of the request gives it."""
        desk = self._desks.of(context.headers)
        return await to_thread.run_sync(lambda: desk.do(function, *args, **kwargs))
