"""Waiting for the ends of runs in asyncio: one subscription, or one request at a time, for any number of waiters."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from afl.kernel.errors import AgentFlowError, NotFoundError, StoreUnavailable
from afl.operations.run.waiting import MOST_RUNS, RunEnd, RunEnds, ended_runs, wait_for_any
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import run_topic

_POLL_SECONDS = 5.0  # a notification may be lost
_RETRY_SECONDS = 0.5  # the store or the server is away
_LONG_POLL_SECONDS = 2.0

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class RunEndWaiters(ABC):
    """Futures of those who wait, by run, and the task that resolves them. The task is there while somebody waits."""

    def __init__(self) -> None:
        self._futures: dict[str, set[asyncio.Future[RunEnd]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def end_of(self, run: str) -> RunEnd:
        """Where a run stands when it is over. NotFoundError if it is not in the store, or no longer."""
        future: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        self._futures.setdefault(run, set()).add(future)
        self._changed()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="afl-run-ends")
        try:
            return await future
        finally:
            self._forget(run, future)

    async def close(self) -> None:
        """End the task, and every wait as canceled."""
        for future in [each for futures in self._futures.values() for each in futures]:
            future.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _forget(self, run: str, future: asyncio.Future[RunEnd]) -> None:
        futures = self._futures.get(run, set())
        futures.discard(future)
        if not futures:
            self._futures.pop(run, None)
        if not self._futures:
            self._changed()

    def _resolve(self, found: RunEnds) -> None:
        for end in found.ended:
            for future in self._futures.get(end.run, ()):
                if not future.done():
                    future.set_result(end)
        for run in found.unknown:
            self._fail([run], NotFoundError(f"run {run} is not in this store"))

    def _fail(self, runs: Iterable[str], error: AgentFlowError) -> None:
        for run in runs:
            for future in self._futures.get(run, ()):
                if not future.done():
                    future.set_exception(error)

    @abstractmethod
    def _changed(self) -> None:
        """Somebody waits for a run, or nobody waits any more."""

    @abstractmethod
    async def _work(self) -> None: ...


class StoreRunEnds(RunEndWaiters):
    """On a store: one subscription; what is notified is read from the store, all of it together."""

    def __init__(self, store: PersistenceAPI, in_thread: InThread) -> None:
        super().__init__()
        self._store = store
        self._in_thread = in_thread
        self._subscription = store.subscribe([])

    def _changed(self) -> None:
        self._subscription.wake()

    async def close(self) -> None:
        await super().close()
        self._subscription.close()

    async def _work(self) -> None:
        known: set[str] = set()
        due: set[str] = set()
        while self._futures:
            if new := self._futures.keys() - known:
                known = set(self._futures)
                self._subscription.change(map(run_topic, known))  # before the look into the store
                due |= new
            due &= self._futures.keys()
            failed = bool(due) and not await self._look(sorted(due))
            notified = await self._subscription.wait_async(_RETRY_SECONDS if failed else _POLL_SECONDS)
            if failed or not (notified or self._futures.keys() - known):
                due = set(self._futures)
            else:
                due = {run for run in self._futures if run_topic(run) in notified}
        self._subscription.change([])

    async def _look(self, runs: list[str]) -> bool:
        """Resolve those that are over; False if the store is away for now."""
        try:
            self._resolve(await self._in_thread(lambda: ended_runs(self._store, runs)))
        except StoreUnavailable:
            return False
        except AgentFlowError as error:
            self._fail(runs, error)
        return True


class PolledRunEnds(RunEndWaiters):
    """Over HTTP: long polls that name the runs. Two at most at a time: new waiters need not wait for the first."""

    def __init__(self, call: Callable[..., Awaitable[RunEnds | None]]) -> None:
        super().__init__()
        self._call = call
        self._asked: set[str] = set()
        self._news = asyncio.Event()

    def _changed(self) -> None:
        self._news.set()

    async def _work(self) -> None:
        polls: set[asyncio.Task[None]] = set()
        try:
            while self._futures:
                self._news.clear()
                new = [run for run in self._futures if run not in self._asked]
                if new and len(polls) < 2:
                    polls.add(asyncio.create_task(self._poll(new[:MOST_RUNS])))
                await self._news.wait()
                polls = {each for each in polls if not each.done()}
        finally:
            for each in polls:
                each.cancel()

    async def _poll(self, runs: list[str]) -> None:
        self._asked.update(runs)
        try:
            if (found := await self._call(wait_for_any, runs, _LONG_POLL_SECONDS)) is not None:
                self._resolve(found)
        except AgentFlowError as error:
            self._fail(runs, error)
        finally:
            self._asked.difference_update(runs)
            self._news.set()
