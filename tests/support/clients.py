"""Clients for tests: one story for the asynchronous client and for the synchronous one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, cast

from afl.client.async_client import AsyncClient
from afl.client.connection import Connection
from afl.kernel.settings import Settings


class Awaited:
    """A synchronous client or handle, with methods that can be awaited: each is called on a thread."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if type(found).__name__ in ("Turns", "Fleet", "Messages"):
            return Awaited(found)
        if not callable(found):
            return found
        if inspect.isgeneratorfunction(found):
            return lambda *args, **kwargs: _iterated(found(*args, **kwargs))
        if name == "session":
            return lambda *args, **kwargs: Awaited(found(*args, **kwargs))
        if name == "worker":
            return lambda *args, **kwargs: _entered(found(*args, **kwargs))

        async def call(*args: Any, **kwargs: Any) -> Any:
            result = await asyncio.to_thread(found, *args, **kwargs)
            return Awaited(result) if type(result).__name__ in ("RunHandle", "Session") else result

        return call


async def _iterated(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    end = object()
    while (item := await asyncio.to_thread(next, iterator, end)) is not end:
        yield item


@asynccontextmanager
async def _entered(manager: AbstractContextManager[Any]) -> AsyncIterator[Any]:
    entered = await asyncio.to_thread(manager.__enter__)
    try:
        yield entered
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


@asynccontextmanager
async def opened_client(settings: Settings, *, synchronous: bool = False) -> AsyncIterator[AsyncClient]:
    """A client of either kind, to be used as the asynchronous one."""
    if not synchronous:
        async with Connection(settings) as client:
            yield client
        return
    async with _entered(Connection(settings)) as client:
        yield cast(AsyncClient, Awaited(client))
