"""Calls of operations from asyncio: what the asynchronous client stands on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from afl.client.calls import open_store
from afl.client.run_ends import PolledRunEnds, RunEndWaiters, StoreRunEnds
from afl.client.store_client import OperationsClient, StoreClient
from afl.kernel.settings import Settings
from afl.operations.run.waiting import RunEnd
from afl.runtime.persistence import PersistenceAPI

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 3


class AsyncCalls:
    """Calls operations on a few threads of its own, and waits for runs without any."""

    def __init__(self, client: OperationsClient, settings: Settings) -> None:
        self._client = client
        self.settings = settings
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="afl-client")
        self._ends: RunEndWaiters | None = None

    async def call(
        self, function: Callable[Concatenate[Any, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The operation's result. One that has begun ends, whatever becomes of the caller."""
        return await self.in_thread(partial(self._client.call, function, *args, **kwargs))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What a function returns that blocks."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, work)

    def open_store(self) -> PersistenceAPI:
        """The store; CapabilityError for a client of a server."""
        return open_store(self._client)

    async def end_of(self, run: str, timeout: float | None) -> RunEnd:
        """Where a run stands when it is over; TimeoutError after so many seconds."""
        if self._ends is None:
            if isinstance(self._client, StoreClient):
                store = await self.in_thread(self.open_store)
                self._ends = self._ends or StoreRunEnds(store, self.in_thread)
            else:
                self._ends = PolledRunEnds(self.call)
        try:
            async with asyncio.timeout(timeout):
                return await self._ends.end_of(run)
        except TimeoutError:
            raise TimeoutError(f"run {run} was not over after {timeout} seconds; it goes on") from None

    async def close(self) -> None:
        """End what waits, and the threads."""
        if self._ends is not None:
            await self._ends.close()
        await asyncio.to_thread(self._threads.shutdown)
