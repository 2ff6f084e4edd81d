"""Waiting for the ends of runs in asyncio: one thread, or one request at a time, for any number of waiters."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable

from afl.client.outcome import closed
from afl.kernel.errors import AgentFlowError, InputError, NotFoundError, StoreUnavailable
from afl.operations.run.waiting import MOST_RUNS, RunEnd, RunEnds, ended_runs, wait_for_any
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import run_topic

_POLL_SECONDS = 5.0  # a notification may be lost
_RETRY_SECONDS = 0.5  # the store is away
_LONG_POLL_SECONDS = 2.0


class RunEndWaiters(ABC):
    """Futures of those who wait, by run; whoever implements it resolves them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._futures: dict[str, set[asyncio.Future[RunEnd]]] = {}

    async def end_of(self, run: str) -> RunEnd:
        """Where a run stands when it is over. NotFoundError if it is not in the store, or no longer."""
        if asyncio.get_running_loop() is not self._loop:
            raise InputError(
                "the client waits for runs on another event loop; open a client on each loop, or one by "
                "`with afl.connect(...)`, which every thread may use"
            )
        future: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        is_new = run not in self._futures
        self._futures.setdefault(run, set()).add(future)
        if is_new:
            self._changed()
        try:
            return await future
        finally:
            self._forget(run, future)

    async def close(self) -> None:
        """End every wait with an error: nobody canceled those who wait."""
        self._fail(list(self._futures), closed())

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
        """Somebody waits for another run, or nobody waits any more."""


class StoreRunEnds(RunEndWaiters):
    """On a store: a thread with one subscription. What is notified it reads itself, all of it together, so that a
    result takes two changes of thread: from the listener to this one, and from this one to the event loop."""

    def __init__(self, store: PersistenceAPI) -> None:
        super().__init__()
        self._store = store
        self._subscription = store.subscribe([])
        self._thread: threading.Thread | None = None

    def _changed(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="afl-run-ends", daemon=True)
            self._thread.start()
        else:
            self._subscription.wake()

    async def close(self) -> None:
        await super().close()
        self._subscription.close()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        known: set[str] = set()
        due: set[str] = set()
        while not self._subscription.closed:
            wanted = set(self._futures.copy())
            if new := wanted - known:
                self._subscription.change(map(run_topic, wanted))  # before the look into the store
                due |= new
            known = wanted
            due &= wanted
            failed = bool(due) and not self._look(sorted(due))
            notified = self._subscription.wait(
                _RETRY_SECONDS if failed else _POLL_SECONDS if wanted else None
            )
            if notified and not failed:
                due = {run for run in wanted if run_topic(run) in notified}
            elif failed or wanted == self._futures.keys():
                due = set(wanted)  # also when nothing was notified for long
            else:
                due = set()

    def _look(self, runs: list[str]) -> bool:
        """Resolve those that are over; False if the store is away for now."""
        try:
            found = ended_runs(self._store, runs)
        except StoreUnavailable:
            return False
        except AgentFlowError as error:
            self._in_loop(self._fail, runs, error)
        else:
            if found.ended or found.unknown:
                self._in_loop(self._resolve, found)
        return True

    def _in_loop(self, function: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(
            RuntimeError
        ):  # the loop is closed, and with it everybody who waited is gone
            self._loop.call_soon_threadsafe(function, *args)


class PolledRunEnds(RunEndWaiters):
    """Over HTTP: long polls that name the runs. Two at most at a time: new waiters need not wait for the first."""

    def __init__(self, call: Callable[..., Awaitable[RunEnds | None]]) -> None:
        super().__init__()
        self._call = call
        self._asked: set[str] = set()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def _changed(self) -> None:
        self._news.set()
        if self._futures and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work(), name="afl-run-ends")

    async def close(self) -> None:
        await super().close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

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
