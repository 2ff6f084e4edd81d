"""A worker inside the user's own process: on a store, or over HTTP."""

from __future__ import annotations

import asyncio
import importlib
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from afl.client.store_client import OperationsClient, StoreClient
from afl.kernel.bounds import check_name
from afl.kernel.errors import InputError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.settings import Settings
from afl.operations.work.alerting import alerting
from afl.operations.work.hosting import TurnStaff, bridge_service, hosted_names
from afl.operations.work.offers import Offer, offer_of
from afl.operations.work.service import Notices, ServiceOptions, make_service
from afl.runtime.runner.service import RunnerService


class Worker(ABC):
    """Works on tasks until its `with` or `async with` block exits; made by `worker` of the client.

    Leaving the block stops it gracefully: running handlers may finish within the shutdown timeout. Functions run on
    threads; coroutines on the loop of an `async with` block, or on the loop that the handlers of a process share.
    """

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._thread: JoinableThread | None = None
        self._up = threading.Event()
        self._problem: BaseException | None = None

    @property
    def facets(self) -> list[str]:
        """What it serves: facets with a handler, agents that it answers for."""
        return self._offer.names

    def __enter__(self) -> Worker:
        # Prepared on the thread: a loop that runs here is blocked by this block, and no loop for handlers.
        self._begin(lambda: self._prepare()())
        try:
            self._up.wait()
        except BaseException:  # Ctrl-C: no block is entered, and so none is left
            self._give_up()
            raise
        self._check()
        return self

    def __exit__(self, *error: object) -> None:
        self._end()
        self._check()

    async def __aenter__(self) -> Worker:
        self._begin(self._prepare())  # here, so that the handlers know this loop
        try:
            await asyncio.to_thread(self._up.wait)
        except BaseException:  # canceled: no block is entered, and so none is left
            await asyncio.to_thread(self._give_up)
            raise
        self._check()
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self._end)
        self._check()

    @abstractmethod
    def _prepare(self) -> Callable[[], None]:
        """What to do on a thread until `_stop`; it sets `_up` once it works."""

    @abstractmethod
    def _stop(self) -> None:
        """Let that end soon."""

    def _begin(self, working: Callable[[], None]) -> None:
        def work() -> None:
            try:
                working()
            except BaseException as error:
                self._problem = error
            finally:
                self._up.set()

        self._thread = JoinableThread(work, "afl-worker")
        self._thread.start()

    def _end(self) -> None:
        self._stop()
        if self._thread is not None:
            self._thread.join()

    def _give_up(self) -> None:
        """End it once it works: before that it cannot be stopped."""
        self._up.wait()
        self._end()

    def _check(self) -> None:
        """What ended the worker is raised where its block begins or ends."""
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem


class StoreWorker(Worker):
    """A RunnerService on a thread, with the bridges and agents of its handlers."""

    def __init__(
        self, client: StoreClient, settings: Settings, offer: Offer, options: ServiceOptions
    ) -> None:
        super().__init__(offer)
        self._client = client
        self._settings = settings
        self._options = options
        self._service: RunnerService | None = None

    def _prepare(self) -> Callable[[], None]:
        store = self._client.store
        bridges = bridge_service(store, self._settings, self._offer)
        service = self._service = make_service(
            store,
            self._settings,
            self._offer.handlers,
            self._options,
            Notices(started=self._up.set),
            hosts=hosted_names(bridges, self._settings, self._offer),
        )

        def work() -> None:
            with ExitStack() as stack:
                stack.enter_context(alerting(store, self._settings))
                for module in self._offer.agents:
                    stack.enter_context(TurnStaff(store, self._settings, module))
                stack.enter_context(bridges)
                service.start()

        return work

    def _stop(self) -> None:
        if self._service is not None:
            self._service.stop()


def worker_options(
    settings: Settings, task_list: str | None, name: str, concurrency: int, shutdown_seconds: float
) -> tuple[Settings, ServiceOptions]:
    """What a worker goes by; InputError for what none can."""
    if task_list:
        settings = replace(settings, task_list=check_name(task_list, "the task list"))
    if not isinstance(shutdown_seconds, int | float) or not 0 <= shutdown_seconds < math.inf:
        raise InputError(f"shutdown_seconds is a number of seconds, 0 or more, got {shutdown_seconds!r:.80}")
    return settings, ServiceOptions("afl-worker", name, concurrency, round(shutdown_seconds * 1000))


def make_worker(
    client: OperationsClient, settings: Settings, handlers: Any, options: ServiceOptions
) -> Worker:
    """A worker that has not started: on the client's store, or by the client's server."""
    offer = offer_of(handlers)
    if isinstance(client, StoreClient):
        return StoreWorker(client, settings, offer, options)
    remote = importlib.import_module("afl.client.remote_worker")  # only some programs need it
    worker: Worker = remote.RemoteWorker(client, settings, offer, options)
    return worker
