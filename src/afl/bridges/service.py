"""BridgeService: the bridges that a process hosts, on a thread with its own event loop.

Any number of processes may host the same bridges; each starts and settles what it finds, and ids and fences ensure
that everything happens once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from afl.bridges.bridge import BridgeFactory, ExternalTask, Outcome
from afl.bridges.bridge_worker import BridgeWorker
from afl.bridges.external_tasks import ExternalTasks
from afl.bridges.rules import Rules
from afl.kernel import crashpoint
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.errors import AgentFlowError, StoreError, pip_install
from afl.kernel.isolation import Isolation
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.notify import Subscription
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence.held_claims import claiming
from afl.runtime.persistence.topics import CANCEL_TOPIC, ELSEWHERE_TOPIC, tasks_topic
from afl.runtime.recovery.stray_claims import StrayClaims
from afl.runtime.recovery.sweep import fire_timers, reclaim

_log = logging.getLogger(__name__)

_SWEEP_SECONDS = 0.5
_CLOSING_SECONDS = 10.0
_CLAIMED = 100
_PEOPLE = "human"
_SIGNALS = "signal"
_NEEDS = {
    "agent": "turns need a store on SQLite or PostgreSQL",
    "fleet": pip_install("fleet"),
    "message": pip_install("coordination"),
}


class BridgeService:
    """Hosts bridges from `start` to `stop`. `factories` create them, by kind; those in `eager` are created at once.

    `rules` say which facets are handed over by configuration. With `sweeps` it also expires leases and timeouts, for a
    process without a worker.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        factories: Mapping[str, BridgeFactory],
        *,
        rules: Rules | None = None,
        task_list: str = "default",
        poll_seconds: float = 2.0,
        eager: Collection[str] = (),
        sweeps: bool = False,
    ) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._factories = dict(factories)
        self._rules = rules or Rules({})
        self._task_list = task_list
        self._poll = poll_seconds
        self._eager = eager
        self._sweeps = sweeps
        self._strays = StrayClaims(self._store, task_list, lambda name: self._rules.via(name) is not None)
        self._isolation = Isolation(_log, "the bridge service")
        self._stopping = False
        self._subscription: Subscription | None = None
        self._workers: list[BridgeWorker] = []
        self._up = threading.Event()
        self._thread = JoinableThread(self._serve, "afl-bridges")

    @property
    def kinds(self) -> list[str]:
        """The kinds of external systems that this process reaches."""
        return list(self._factories)

    def expects_result(self, task: TaskDefinition) -> bool:
        """Whether an open task can complete without a handler: its bridge is hosted here and accepts it.

        A signal may come at any time, from any process.
        """
        via = task.via or self._rules.via(task.name) or ""
        return via.partition(":")[0] in (*self._factories, _SIGNALS) and not self.reason(task)

    def reason(self, task: TaskDefinition) -> str:
        """Why a task could not be started; empty: it is started, or will be soon."""
        kind = task.via.partition(":")[0]
        if kind not in ("", _PEOPLE, _SIGNALS) and kind not in self._factories:
            return f"this process has no bridge to it; {_NEEDS.get(kind, 'nobody has one')}"
        return next(
            (worker.reasons[task.uuid] for worker in self._workers if task.uuid in worker.reasons), ""
        )

    def start(self) -> None:
        self._thread.start()
        self._up.wait()

    def stop(self) -> None:
        """Stop hosting; external work continues, and other hosts or the next one settle it."""
        self._stopping = True
        if self._subscription is not None:
            self._subscription.wake()
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- for the bridges --------------------------------------------------------------------------------------

    async def find(self, external_id: str) -> ExternalTask | None:
        return await self._externals.find(external_id)

    async def settle(self, outcome: Outcome) -> None:
        await self._externals.settle(outcome)

    async def queued(self, external_id: str, reason: str) -> None:
        await self._externals.note_queued(external_id, reason)

    def wake(self) -> None:
        for worker in self._workers:
            worker.notify(all_of_it=True)

    # -- the thread -------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self._stopping:
                try:
                    asyncio.run(self._main())
                except Exception as error:  # bridges that ended would leave their steps waiting forever
                    known = isinstance(error, StoreError)
                    _log.warning("the bridges failed, restarting: %s", error, exc_info=not known)
                    time.sleep(_SWEEP_SECONDS)
        finally:
            self._up.set()

    async def _main(self) -> None:
        self._externals = ExternalTasks(self._evaluator)
        self._tasks_notified = asyncio.Event()
        self._workers = [
            BridgeWorker(kind, factory, self._externals, self, self._poll)
            for kind, factory in self._factories.items()
        ]
        with self._store.subscribe(self._topics()) as subscription:
            self._subscription = subscription
            jobs = [asyncio.create_task(each) for each in self._jobs()]
            try:
                self._up.set()
                await self._handle(subscription)
            finally:
                await self._end(jobs)

    async def _handle(self, subscription: Subscription) -> None:
        while not self._stopping:
            notified = await subscription.wait_async(self._poll)
            if tasks_topic(self._task_list) in notified:
                self._tasks_notified.set()
            if not notified.isdisjoint((ELSEWHERE_TOPIC, CANCEL_TOPIC)):
                for worker in self._workers:
                    worker.notify()

    async def _end(self, jobs: list[asyncio.Task[None]]) -> None:
        await cancel_and_wait(jobs)
        try:
            for worker in self._workers:
                await self._close(worker)
        finally:
            self._externals.close()

    async def _close(self, worker: BridgeWorker) -> None:
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                await worker.close()
        except TimeoutError:  # `stop` must not wait for the external system
            _log.warning("the bridge to %s does not close in time", worker.kind)

    def _topics(self) -> list[str]:
        own = [ELSEWHERE_TOPIC, CANCEL_TOPIC]
        return [*own, tasks_topic(self._task_list)] if self._rules.names else own

    def _jobs(self) -> list[Coroutine[Any, Any, None]]:
        for worker in self._workers:
            if worker.kind in self._eager:
                worker.open()
        jobs = [worker.run() for worker in self._workers]
        if self._rules.names:
            jobs.append(self._repeat(self._hand_over, self._poll, self._tasks_notified))
        if self._sweeps:
            jobs.append(self._repeat(self._sweep, _SWEEP_SECONDS, asyncio.Event()))
        return jobs

    async def _repeat(self, job: Callable[[], None], seconds: float, notified: asyncio.Event) -> None:
        """Run a job on the store at an interval and on notifications."""
        while True:
            notified.clear()
            try:
                await self._externals.perform(job)
            except Exception as error:  # the next run may succeed, and no other process does it
                known = isinstance(error, AgentFlowError)
                _log.warning("a job of the bridges failed, retrying: %s", error, exc_info=not known)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await notified.wait()

    def _sweep(self) -> None:
        reclaim(self._evaluator)
        fire_timers(self._evaluator)

    def _hand_over(self) -> None:
        """Claim tasks that configuration hands over as a handler would, and release them to the bridge."""
        self._strays.give_back()
        try:
            with claiming():
                self._claim_and_hand_over()
        except StoreError:
            self._strays.suspect()
            raise

    def _claim_and_hand_over(self) -> None:
        while True:
            tasks = self._store.claim_tasks(
                self._rules.names, self._task_list, limit=_CLAIMED, lease_ms=self._store.lease_ms
            )
            for task in tasks:
                self._hand_over_one(task)
            if len(tasks) < _CLAIMED:
                return

    def _hand_over_one(self, task: TaskDefinition) -> None:
        """A task that cannot be handed over is returned, and does not delay others."""
        via, done = self._rules.via(task.name), False
        with self._isolation.item(f"task {task.uuid}"):
            if via is not None:
                crashpoint.reach("bridge.hand_over")
                self._store.hand_over(task, via)
            done = True
        if not done:
            self._strays.suspect()
