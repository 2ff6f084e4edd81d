"""The client of a request: over stdio the user of this machine, over HTTP the owner of the token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from anyio import to_thread
from mcp.server.mcpserver import Context

from afl.client.http_client import HttpClient
from afl.client.store_client import OperationsClient, StoreClient
from afl.kernel.errors import Unauthenticated
from afl.kernel.settings import Settings
from afl.operations.access import Users
from afl.operations.roles import Caller
from afl.runtime.persistence import PersistenceAPI

P = ParamSpec("P")
T = TypeVar("T")
ADDRESS_HEADER = "afl-client-address"
"""In which the gate says from where a request came."""


class ClientProvider(Protocol):
    """Gives each request its client."""

    def of(self, headers: Mapping[str, str] | None) -> OperationsClient:
        """The client of the sender of these headers; there are none over stdio."""


class SingleClient:
    """The same for everybody: there is only one who can ask."""

    def __init__(self, client: OperationsClient) -> None:
        self._client = client

    def of(self, headers: Mapping[str, str] | None) -> OperationsClient:
        return self._client


class ClientsByToken:
    """One for each user, with that user's role."""

    def __init__(self, store: PersistenceAPI, settings: Settings, users: Users) -> None:
        self._store = store
        self._settings = settings
        self._users = users

    def of(self, headers: Mapping[str, str] | None) -> OperationsClient:
        given = headers or {}
        user = self._users.owner_of(token_of(given))
        if user is None:
            raise Unauthenticated("the token is not known here")
        origin = f"mcp, {given.get(ADDRESS_HEADER, 'unknown')}"
        return StoreClient(self._store, self._settings, Caller(user.name, user.role, origin))


class ClientsAtServer:
    """One for each user at another server, which is asked with that user's token and not with our own: it decides."""

    def __init__(self, url: str) -> None:
        self._url = url

    def of(self, headers: Mapping[str, str] | None) -> OperationsClient:
        return HttpClient(self._url, token_of(headers or {}))


def token_of(headers: Mapping[str, str]) -> str:
    """The token of an Authorization header; empty if there is none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


class RequestClient:
    """Calls operations for tools and resources, each on a thread of its own."""

    def __init__(self, clients: ClientProvider) -> None:
        self._clients = clients

    async def call(
        self,
        context: Context[Any, Any],
        function: Callable[Concatenate[Any, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The function's result, through the client of the request."""
        client = self._clients.of(context.headers)
        return await to_thread.run_sync(lambda: client.call(function, *args, **kwargs))
