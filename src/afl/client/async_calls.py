"""Calls of operations from asyncio: what the asynchronous client stands on."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from afl.client.calls import LONG_POLL_SECONDS, PAGE_SIZE, PageT, open_store
from afl.client.joined_start import JoinedStart, result_of
from afl.client.outcome import closed, not_ended
from afl.client.run_ends import PolledRunEnds, RunEndWaiters, StoreRunEnds
from afl.client.run_waits import AWAY, RETRY_SECONDS, countdown
from afl.client.store_client import OperationsClient, StoreClient
from afl.client.worker import Worker, make_worker
from afl.kernel.errors import AgentFlowError
from afl.kernel.settings import Settings
from afl.operations.program.submission import Submitted
from afl.operations.reason.reasons import Reason
from afl.operations.reason.why import why
from afl.operations.run.run_events import event_topics
from afl.operations.run.waiting import RunEnd
from afl.operations.work.service import ServiceOptions
from afl.runtime.persistence import PersistenceAPI

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 2
_POLLS = 32  # of a server: streams at a time, each while it waits
_REASON_SECONDS = 0.5
_POLL_SECONDS = 2.0  # how long closing may have to wait for one


class AsyncCalls:
    """Calls operations on a few threads of its own, and waits for runs without any."""

    def __init__(self, client: OperationsClient, settings: Settings) -> None:
        self._client = client
        self.settings = settings
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="afl-client")
        self._polls = ThreadPoolExecutor(_POLLS, thread_name_prefix="afl-client-poll")
        self._ends: RunEndWaiters | None = None
        self._is_closed = False

    async def call(
        self, function: Callable[Concatenate[Any, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The operation's result. One that has begun ends, whatever becomes of the caller."""
        return await self.in_thread(partial(self._client.call, function, *args, **kwargs))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What a function returns that blocks."""
        return await self._on(self._threads, work)

    async def poll(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
        """The result of an operation that waits; None if the store or the server is away for now.

        Other operations are called meanwhile.
        """
        return await _unless_away(
            self._on(self._polls, partial(self._client.call, function, *args, **kwargs))
        )

    async def joined_start(self, connection: Any, *given: Any) -> JoinedStart:
        """A start as part of the transaction of a connection."""
        return await self.in_thread(lambda: JoinedStart(self._client, connection, *given))

    async def start_on(self, connection: Any, start: JoinedStart) -> Submitted:
        """Execute the statements of a start on the connection, which may be asynchronous or not."""
        statements = start.statements
        try:
            statement = next(statements)
            while True:
                cursor = await _awaited(connection.execute(statement.text, statement.parameters))
                row = await _awaited(cursor.fetchone()) if cursor.description else None
                statement = statements.send(result_of(cursor, row))
        except StopIteration as end:
            return start.submitted(end.value)

    @staticmethod
    def countdown(timeout: float | None) -> Callable[[], float]:
        """How many seconds are left, whenever it is asked."""
        return countdown(timeout)

    def worker(self, settings: Settings, handlers: Any, options: ServiceOptions) -> Worker:
        """A worker that has not started."""
        self._check_open()
        return make_worker(self._client, settings, handlers, options)

    def open_store(self) -> PersistenceAPI:
        """The store; CapabilityError for a client of a server."""
        return open_store(self._client)

    async def next_page(
        self, function: Callable[..., PageT], run: str, after: Any, *, wait: bool, **wanted: Any
    ) -> PageT | None:
        """The next page of a stream of a run; with `wait`, what comes within a while if there is none.

        None if it waits and the store or the server is away for now.
        """
        wanted = {"after": after, "limit": PAGE_SIZE, **wanted}
        if not wait:
            return await self.call(function, run, **wanted)
        if not isinstance(self._client, StoreClient):
            return await self.poll(function, run, wait=_POLL_SECONDS, **wanted)
        return await _unless_away(self._wait_for_page(partial(self.call, function, run, **wanted), run))

    async def _wait_for_page(self, ask: Callable[[], Awaitable[PageT]], run: str) -> PageT:
        store = await self.in_thread(self.open_store)
        with store.subscribe(event_topics(run)) as subscription:
            page = await ask()
            if page.is_empty and not page.over:
                await subscription.wait_async(LONG_POLL_SECONDS)
                page = await ask()
            return page

    async def end_of(self, run: str, timeout: float | None) -> RunEnd:
        """Where a run stands when it is over; TimeoutError after so many seconds."""
        self._check_open()
        if self._ends is None:
            if isinstance(self._client, StoreClient):
                store = await self.in_thread(self.open_store)
                self._ends = self._ends or StoreRunEnds(store)
            else:
                self._ends = PolledRunEnds(self.poll)
        try:
            async with asyncio.timeout(timeout):
                return await self._ends.end_of(run)
        except TimeoutError:
            raise not_ended(run, timeout, await self._reason(run)) from None

    async def _reason(self, run: str) -> Reason | None:
        """Why a run goes on; None if that cannot be found at once."""
        try:
            async with asyncio.timeout(_REASON_SECONDS):
                return await self.call(why, run)
        except (AgentFlowError, TimeoutError):
            return None

    async def close(self) -> None:
        """End what waits, and the threads."""
        self._is_closed = True
        if self._ends is not None:
            await self._ends.close()
        self._polls.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._threads.shutdown)

    async def _on(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(threads, copy_context().run, work)

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed()


async def _unless_away(answer: Awaitable[T]) -> T | None:
    try:
        return await answer
    except AWAY:
        await asyncio.sleep(RETRY_SECONDS)
        return None


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
