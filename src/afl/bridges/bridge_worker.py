"""The worker of one bridge: starts new external tasks, settles ended ones, cancels those that nobody waits for.

It runs on notifications, and at an interval in any case: every notification may be lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from afl.bridges.bridge import Bridge, BridgeFactory, ExternalTask, Host, NotReady, Outcome, Refused
from afl.bridges.external_tasks import ExternalTasks
from afl.kernel import crashpoint
from afl.kernel.backoff import Backoff
from afl.kernel.clock import wall_ms
from afl.kernel.errors import AgentFlowError, StoreError
from afl.kernel.isolation import Isolation
from afl.runtime.entities import TaskDefinition
from afl.runtime.task_handlers.elsewhere import earlier_ids, elsewhere_id

_log = logging.getLogger(__name__)

_AT_ONCE = 16
_FEW = 1_000  # up to so many open tasks are all read on every notification; of more, only the new ones
_AGAIN_SECONDS = 30.0  # between two starts of the same tasks on a system that may lose some
_CANCEL_REPEAT_MS = 30_000  # how long an unknown task is canceled again: its start may be on its way
_QUIET_MS = 5_000  # a task that waits for less than this gets no log line
_EASE = 5.0  # polling everything, which only finds missed events, takes a fifth of the time at most
_RETRY = Backoff(0.2, cap=10.0)


class BridgeWorker:
    """Runs one kind of bridge for one host. The bridge is opened when there is a first task for it."""

    def __init__(
        self, kind: str, factory: BridgeFactory, externals: ExternalTasks, host: Host, poll_seconds: float
    ) -> None:
        self.kind = kind
        self._factory = factory
        self._externals = externals
        self._host = host
        self._poll = poll_seconds
        self._bridge: Bridge | None = None
        self._notified = asyncio.Event()
        self._swept = self._renewed = self._poll_next = -1e9
        self._many = False
        self._newest = ""
        self._started_ids: set[str] = set()
        self._previous_canceled: set[str] = set()
        self._blocked: set[str] = set()
        self._cancel_sent: set[str] = set()  # tasks whose cancel was sent and that were unknown there
        self.reasons: dict[str, str] = {}  # why tasks could not be started, by task id
        self._noted: dict[str, str] = {}
        self._due: float | None = None
        self._isolation = Isolation(_log, f"the bridge to {kind}")

    def open(self) -> Bridge:
        if self._bridge is None:
            self._bridge = self._factory(self._host)
        return self._bridge

    def notify(self, *, all_of_it: bool = False) -> None:
        """Run soon, for new tasks or for all."""
        if all_of_it:
            self._swept = self._poll_next = -1e9
        self._notified.set()

    async def close(self) -> None:
        if self._bridge is not None:
            await self._bridge.close()

    async def run(self) -> None:
        failures = 0
        while True:
            self._notified.clear()
            try:
                await self._run_once()
                failures = 0
            except Exception as error:  # a worker that ended would leave its steps waiting forever
                failures += 1
                known = isinstance(error, (AgentFlowError, OSError))
                _log.warning("the bridge to %s failed, retrying: %s", self.kind, error, exc_info=not known)
                await asyncio.sleep(_RETRY.delay(failures))
            try:
                async with asyncio.timeout(self._wait_seconds()):
                    await self._notified.wait()
            except TimeoutError:
                continue

    def _wait_seconds(self) -> float:
        wait = self._swept + self._poll - time.monotonic()
        return max(0.0, wait if self._due is None else min(wait, self._due))

    async def _run_once(self) -> None:
        sweep = time.monotonic() >= self._swept + self._poll
        after = "" if sweep or not self._many else self._newest
        ended = await self._externals.ended(self.kind)
        externals = await self._externals.open(self.kind, after)
        if self._bridge is None and not ended and not externals:
            self._swept = time.monotonic()
            return
        bridge = self.open()
        if sweep:
            self._swept = time.monotonic()
            self._sweep(bridge, externals)
            await bridge.retain(externals)
        await self._cancel_ended(bridge, ended)
        await self._start(bridge, externals)
        if sweep and time.monotonic() >= self._poll_next:
            begun = time.monotonic()
            await self._settle(bridge, externals)
            self._poll_next = time.monotonic() + _EASE * (time.monotonic() - begun)

    def _sweep(self, bridge: Bridge, externals: Sequence[ExternalTask]) -> None:
        """Forget tasks that have ended."""
        self._many = len(externals) > _FEW
        wanted = {external.id for external in externals}
        self._started_ids &= wanted
        self._previous_canceled &= wanted
        self._blocked.clear()
        self._cancel_sent.clear()
        uuids = {external.task.uuid for external in externals}
        self._noted = {uuid: reason for uuid, reason in self._noted.items() if uuid in uuids}
        for uuid in self.reasons.keys() - uuids:
            del self.reasons[uuid]
        if bridge.renews and self._swept >= self._renewed + _AGAIN_SECONDS:
            self._renewed = self._swept
            self._started_ids.clear()

    async def _start(self, bridge: Bridge, externals: Sequence[ExternalTask]) -> None:
        if externals:
            self._newest = max(self._newest, externals[-1].task.uuid)
        waiting = [external.seconds_to_wait for external in externals if external.seconds_to_wait > 0]
        self._due = min(waiting) if waiting else None
        new = await self._externals.startable(
            [
                external
                for external in externals
                if external.id not in self._started_ids and external.to not in self._blocked
            ]
        )
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(external: ExternalTask) -> bool:
            async with gate:
                return await self._start_one(bridge, external)

        begun = await asyncio.gather(*(one(external) for external in new), return_exceptions=True)
        for problem in begun:
            if isinstance(problem, BaseException):  # the store is unavailable
                raise problem
        fresh = [external for external, is_begun in zip(new, begun, strict=True) if is_begun]
        await self._settle(bridge, fresh)  # another process may have started it, and it may have ended since
        await self._cancel_settled(bridge, fresh)

    async def _start_one(self, bridge: Bridge, external: ExternalTask) -> bool:
        """Whether it is started now."""
        if external.to in self._blocked:
            return False
        try:
            if (
                external.task.failures and external.id not in self._previous_canceled
            ):  # the previous attempt may still run
                await bridge.cancel(earlier_ids(external.task)[0], external.to)
                self._previous_canceled.add(external.id)
            if external.seconds_to_wait > 0:
                return False
            crashpoint.reach("bridge.begin")
            await bridge.start(external)
            crashpoint.reach("bridge.begun")
        except NotReady as reason:
            await self._postpone(external, str(reason))
            return False
        except Refused as refused:
            await self._externals.settle(Outcome(external.id, error=str(refused), kind=refused.kind))
            return False
        except StoreError:
            raise
        except Exception as error:  # one task that cannot be started must not delay the others
            await self._start_failed(external, error)
            return False
        self._started_ids.add(external.id)
        self.reasons.pop(external.task.uuid, None)
        if wall_ms() - external.task.created > _QUIET_MS:
            await self._externals.note_started(external)
        return True

    async def _start_failed(self, external: ExternalTask, error: Exception) -> None:
        known = isinstance(error, (AgentFlowError, OSError))
        if self.reasons.get(external.task.uuid) != str(error):
            _log.warning("%s cannot be started, retrying: %s", external.id, error, exc_info=not known)
        await self._wait(external, str(error))

    async def _postpone(self, external: ExternalTask, reason: str) -> None:
        """Other tasks for the same target are not started before the next sweep either."""
        self._blocked.add(external.to)
        await self._wait(external, reason)

    async def _wait(self, external: ExternalTask, reason: str) -> None:
        """Start it again at the next sweep; the reason is logged once."""
        self.reasons[external.task.uuid] = reason
        if wall_ms() - external.task.created > _QUIET_MS and self._noted.get(external.task.uuid) != reason:
            self._noted[external.task.uuid] = reason
            await self._externals.note_waiting(external, reason)

    async def _settle(self, bridge: Bridge, externals: Sequence[ExternalTask]) -> None:
        for outcome in await bridge.poll(externals) if externals else []:
            with self._isolation.item(f"the end of {outcome.id}"):
                await self._externals.settle(outcome)

    async def _cancel_settled(self, bridge: Bridge, externals: Sequence[ExternalTask]) -> None:
        """A task that ended while it was being started may have been canceled before it existed there."""
        if not externals:
            return
        still = await self._externals.still_open([external.id for external in externals])
        for external in externals:
            if external.id not in still and await bridge.cancel(external.id, external.to):
                await self._externals.told(external.task)  # a second cancel would find it unknown

    async def _cancel_ended(self, bridge: Bridge, ended: Sequence[TaskDefinition]) -> None:
        for task in ended:
            if task.uuid in self._cancel_sent:
                continue
            self._cancel_sent.add(task.uuid)
            try:
                known = await self._cancel(bridge, task)
            except (NotReady, StoreError):
                raise
            except Exception as error:  # nor must one that cannot be canceled
                _log.warning("%s cannot be canceled, retrying: %s", elsewhere_id(task), error)
                continue
            if known or wall_ms() - task.updated > _CANCEL_REPEAT_MS:
                await self._externals.told(task)

    async def _cancel(self, bridge: Bridge, task: TaskDefinition) -> bool:
        """Whether the task was known there."""
        ids, to = [elsewhere_id(task), *earlier_ids(task)[:1]], task.via.partition(":")[2]
        return any([await bridge.cancel(external_id, to) for external_id in ids])
