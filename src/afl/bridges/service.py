"""BridgeService: the bridges that a process hosts, on a thread with a loop of its own.

Any number of processes may host the same bridges; each begins and settles what it finds, and the ids and fences see
to it that everything happens once.
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

from afl.bridges.bridge import Ending, Errand, Opening
from afl.bridges.bridge_worker import Lane
from afl.bridges.external_tasks import Errands
from afl.bridges.rules import Rules
from afl.kernel import crashpoint
from afl.kernel.cancelling import cancel_and_wait
from afl.kernel.errors import AgentFlowError, StoreError, pip_install
from afl.kernel.isolation import Isolation
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.notify import Subscription
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence.held_claims import claiming
from afl.runtime.persistence.topics import CANCEL_TOPIC, ELSEWHERE_TOPIC, tasks_topic
from afl.runtime.recovery.stray_claims import StrayClaims
from afl.runtime.recovery.sweep import reclaim

_log = logging.getLogger(__name__)

_SWEEP_SECONDS = 0.5
_CLOSING_SECONDS = 10.0
_CLAIMED = 100
_PEOPLE = "human"
_NEEDS = {
    "agent": "turns need a store on SQLite or PostgreSQL",
    "fleet": pip_install("fleet"),
    "message": pip_install("coordination"),
}


class BridgeService:
    """Hosts bridges from `start` to `stop`. `openings` make them, by kind; those in `eager` are made at once.

    `rules` say which facets are handed over by configuration. With `sweeps` it also looks after timeouts, for a
    process that has no worker to do that.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        openings: Mapping[str, Opening],
        *,
        rules: Rules | None = None,
        task_list: str = "default",
        poll_seconds: float = 2.0,
        eager: Collection[str] = (),
        sweeps: bool = False,
    ) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._openings = dict(openings)
        self._rules = rules or Rules({})
        self._task_list = task_list
        self._poll = poll_seconds
        self._eager = eager
        self._sweeps = sweeps
        self._strays = StrayClaims(self._store, task_list, lambda name: self._rules.via(name) is not None)
        self._apart = Isolation(_log, "the bridge service")
        self._stopping = False
        self._subscription: Subscription | None = None
        self._lanes: list[Lane] = []
        self._up = threading.Event()
        self._thread = JoinableThread(self._serve, "afl-bridges")

    @property
    def kinds(self) -> list[str]:
        """The kinds of other sides that this process reaches."""
        return list(self._openings)

    def looks_after(self, task: TaskDefinition) -> bool:
        """Whether an open task can be expected to be answered without a handler: its bridge is here, and open."""
        via = task.via or self._rules.via(task.name) or ""
        return via.partition(":")[0] in self._openings and not self.reason(task)

    def reason(self, task: TaskDefinition) -> str:
        """Why a task could not be begun; empty: it is, or will be in a moment."""
        kind = task.via.partition(":")[0]
        if kind not in ("", _PEOPLE) and kind not in self._openings:
            return f"this process has no bridge to it; {_NEEDS.get(kind, 'nobody has one')}"
        return next((lane.reasons[task.uuid] for lane in self._lanes if task.uuid in lane.reasons), "")

    def start(self) -> None:
        self._thread.start()
        self._up.wait()

    def stop(self) -> None:
        """Let go; whatever is under way elsewhere goes on, and other hosts or the next one settle it."""
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

    async def errand(self, errand_id: str) -> Errand | None:
        return await self._errands.find(errand_id)

    async def settle(self, ending: Ending) -> None:
        await self._errands.settle(ending)

    async def queued(self, errand_id: str, reason: str) -> None:
        await self._errands.note_queued(errand_id, reason)

    def wake(self) -> None:
        for lane in self._lanes:
            lane.notify(all_of_it=True)

    # -- the thread -------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self._stopping:
                try:
                    asyncio.run(self._main())
                except Exception as error:  # bridges that ended would leave their steps waiting for ever
                    known = isinstance(error, StoreError)
                    _log.warning("the bridges fail, beginning again: %s", error, exc_info=not known)
                    time.sleep(_SWEEP_SECONDS)
        finally:
            self._up.set()

    async def _main(self) -> None:
        self._errands = Errands(self._evaluator)
        self._tasks_rang = asyncio.Event()
        self._lanes = [
            Lane(kind, opening, self._errands, self, self._poll) for kind, opening in self._openings.items()
        ]
        with self._store.listen(self._topics()) as subscription:
            self._subscription = subscription
            chores = [asyncio.create_task(each) for each in self._chores()]
            try:
                self._up.set()
                await self._handle(subscription)
            finally:
                await self._end(chores)

    async def _handle(self, subscription: Subscription) -> None:
        while not self._stopping:
            notified = await subscription.wait_async(self._poll)
            if tasks_topic(self._task_list) in notified:
                self._tasks_rang.set()
            if not notified.isdisjoint((ELSEWHERE_TOPIC, CANCEL_TOPIC)):
                for lane in self._lanes:
                    lane.notify()

    async def _end(self, chores: list[asyncio.Task[None]]) -> None:
        await cancel_and_wait(chores)
        try:
            for lane in self._lanes:
                await self._close(lane)
        finally:
            self._errands.close()

    async def _close(self, lane: Lane) -> None:
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                await lane.close()
        except TimeoutError:  # whoever stops must not wait for the other side
            _log.warning("the bridge to %s does not end; it is left as it is", lane.kind)

    def _topics(self) -> list[str]:
        own = [ELSEWHERE_TOPIC, CANCEL_TOPIC]
        return [*own, tasks_topic(self._task_list)] if self._rules.names else own

    def _chores(self) -> list[Coroutine[Any, Any, None]]:
        for lane in self._lanes:
            if lane.kind in self._eager:
                lane.open()
        chores = [lane.run() for lane in self._lanes]
        if self._rules.names:
            chores.append(self._again(self._hand_over, self._poll, self._tasks_rang))
        if self._sweeps:
            chores.append(self._again(self._sweep, _SWEEP_SECONDS, asyncio.Event()))
        return chores

    async def _again(self, chore: Callable[[], None], seconds: float, notified: asyncio.Event) -> None:
        """Something for the store: every so often, and when it notifies."""
        while True:
            notified.clear()
            try:
                await self._errands.perform(chore)
            except Exception as error:  # the next round may go well, and nobody else does it
                known = isinstance(error, AgentFlowError)
                _log.warning("a chore of the bridges fails, trying again: %s", error, exc_info=not known)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await notified.wait()

    def _sweep(self) -> None:
        reclaim(self._evaluator)

    def _hand_over(self) -> None:
        """Tasks that configuration sends elsewhere are claimed as a handler's are, and let go of at once."""
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
        """One that cannot be handed over goes back, and holds up no other."""
        via, done = self._rules.via(task.name), False
        with self._apart.item(f"task {task.uuid}"):
            if via is not None:
                crashpoint.reach("bridge.hand_over")
                self._store.hand_over(task, via)
            done = True
        if not done:
            self._strays.suspect()
