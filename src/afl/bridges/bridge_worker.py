"""The worker of one bridge: starts new external tasks, settles ended ones, cancels those that nobody waits for.

It runs on notifications, and at an interval in any case: every notification may be lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from afl.bridges.bridge import Bridge, Ending, Errand, Host, NotReady, Opening, Refused
from afl.bridges.external_tasks import Errands
from afl.kernel import crashpoint
from afl.kernel.backoff import Backoff
from afl.kernel.clock import wall_ms
from afl.kernel.errors import AgentFlowError, StoreError
from afl.kernel.isolation import Isolation
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluation.elsewhere import earlier_ids, elsewhere_id

_log = logging.getLogger(__name__)

_AT_ONCE = 16
_FEW = 1_000  # open errands that are all read whenever it rings; of more only the new ones
_AGAIN_SECONDS = 30.0  # when errands are begun again on a side that may lose some
_UNHEARD_MS = (
    30_000  # how long a call-off is repeated to a side that knows nothing: a beginning may be on its way
)
_SILENT_MS = 5_000  # what waits for less than this needs no word about it
_EASE = 5.0  # looking at all that is open, which only finds what was not heard of, takes a fifth of the time at most
_RETRY = Backoff(0.2, cap=10.0)


class Lane:
    """One kind of bridge of one host. The bridge itself is opened when there is something for it."""

    def __init__(
        self, kind: str, opening: Opening, errands: Errands, host: Host, poll_seconds: float
    ) -> None:
        self.kind = kind
        self._opening = opening
        self._errands = errands
        self._host = host
        self._poll = poll_seconds
        self._bridge: Bridge | None = None
        self._notified = asyncio.Event()
        self._swept = self._renewed = self._look_next = -1e9
        self._many = False
        self._newest = ""
        self._begun: set[str] = set()
        self._parted: set[str] = set()
        self._blocked: set[str] = set()
        self._in_vain: set[str] = set()  # tasks that were called off without anybody there knowing of them
        self.reasons: dict[str, str] = {}  # why tasks could not be begun, by their ids
        self._noted: dict[str, str] = {}
        self._due: float | None = None
        self._apart = Isolation(_log, f"the bridge to {kind}")

    def open(self) -> Bridge:
        if self._bridge is None:
            self._bridge = self._opening(self._host)
        return self._bridge

    def notify(self, *, all_of_it: bool = False) -> None:
        """Look soon, at what is new or at everything."""
        if all_of_it:
            self._swept = self._look_next = -1e9
        self._notified.set()

    async def close(self) -> None:
        if self._bridge is not None:
            await self._bridge.close()

    async def run(self) -> None:
        failures = 0
        while True:
            self._notified.clear()
            try:
                await self._round()
                failures = 0
            except Exception as error:  # a lane that ended would leave its steps waiting for ever
                failures += 1
                known = isinstance(error, (AgentFlowError, OSError))
                _log.warning("the bridge to %s fails, trying again: %s", self.kind, error, exc_info=not known)
                await asyncio.sleep(_RETRY.delay(failures))
            try:
                async with asyncio.timeout(self._patience()):
                    await self._notified.wait()
            except TimeoutError:
                continue

    def _patience(self) -> float:
        wait = self._swept + self._poll - time.monotonic()
        return max(0.0, wait if self._due is None else min(wait, self._due))

    async def _round(self) -> None:
        sweep = time.monotonic() >= self._swept + self._poll
        after = "" if sweep or not self._many else self._newest
        ended = await self._errands.ended(self.kind)
        errands = await self._errands.open(self.kind, after)
        if self._bridge is None and not ended and not errands:
            self._swept = time.monotonic()
            return
        bridge = self.open()
        if sweep:
            self._swept = time.monotonic()
            self._sweep(bridge, errands)
            await bridge.keep(errands)
        await self._call_off(bridge, ended)
        await self._begin(bridge, errands)
        if sweep and time.monotonic() >= self._look_next:
            begun = time.monotonic()
            await self._settle(bridge, errands)
            self._look_next = time.monotonic() + _EASE * (time.monotonic() - begun)

    def _sweep(self, bridge: Bridge, errands: Sequence[Errand]) -> None:
        """Forget what is over."""
        self._many = len(errands) > _FEW
        wanted = {errand.id for errand in errands}
        self._begun &= wanted
        self._parted &= wanted
        self._blocked.clear()
        self._in_vain.clear()
        uuids = {errand.task.uuid for errand in errands}
        self._noted = {uuid: reason for uuid, reason in self._noted.items() if uuid in uuids}
        for uuid in self.reasons.keys() - uuids:
            del self.reasons[uuid]
        if bridge.renews and self._swept >= self._renewed + _AGAIN_SECONDS:
            self._renewed = self._swept
            self._begun.clear()

    async def _begin(self, bridge: Bridge, errands: Sequence[Errand]) -> None:
        if errands:
            self._newest = max(self._newest, errands[-1].task.uuid)
        waiting = [errand.seconds_to_wait for errand in errands if errand.seconds_to_wait > 0]
        self._due = min(waiting) if waiting else None
        new = await self._errands.may_begin(
            [errand for errand in errands if errand.id not in self._begun and errand.to not in self._blocked]
        )
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(errand: Errand) -> bool:
            async with gate:
                return await self._begin_one(bridge, errand)

        begun = await asyncio.gather(*(one(errand) for errand in new), return_exceptions=True)
        for problem in begun:
            if isinstance(problem, BaseException):  # the store is away
                raise problem
        fresh = [errand for errand, is_begun in zip(new, begun, strict=True) if is_begun]
        await self._settle(bridge, fresh)  # it may have been begun, and have ended, before we knew of it
        await self._check(bridge, fresh)

    async def _begin_one(self, bridge: Bridge, errand: Errand) -> bool:
        """Whether it is begun now."""
        if errand.to in self._blocked:
            return False
        try:
            if (
                errand.task.failures and errand.id not in self._parted
            ):  # the attempt before may still be at work
                await bridge.cancel(earlier_ids(errand.task)[0], errand.to)
                self._parted.add(errand.id)
            if errand.seconds_to_wait > 0:
                return False
            crashpoint.reach("bridge.begin")
            await bridge.begin(errand)
            crashpoint.reach("bridge.begun")
        except NotReady as reason:
            await self._put_off(errand, str(reason))
            return False
        except Refused as refused:
            await self._errands.settle(Ending(errand.id, error=str(refused), kind=refused.kind))
            return False
        except StoreError:
            raise
        except Exception as error:  # one that cannot be begun must not keep the others waiting
            await self._stumble(errand, error)
            return False
        self._begun.add(errand.id)
        self.reasons.pop(errand.task.uuid, None)
        if wall_ms() - errand.task.created > _SILENT_MS:
            await self._errands.note_begun(errand)
        return True

    async def _stumble(self, errand: Errand, error: Exception) -> None:
        known = isinstance(error, (AgentFlowError, OSError))
        if self.reasons.get(errand.task.uuid) != str(error):
            _log.warning("%s cannot be begun, trying again: %s", errand.id, error, exc_info=not known)
        await self._wait(errand, str(error))

    async def _put_off(self, errand: Errand, reason: str) -> None:
        """What goes to the same place is not tried before the next sweep either."""
        self._blocked.add(errand.to)
        await self._wait(errand, reason)

    async def _wait(self, errand: Errand, reason: str) -> None:
        """It is offered again at the next sweep; why it waits is told once."""
        self.reasons[errand.task.uuid] = reason
        if wall_ms() - errand.task.created > _SILENT_MS and self._noted.get(errand.task.uuid) != reason:
            self._noted[errand.task.uuid] = reason
            await self._errands.note_waiting(errand, reason)

    async def _settle(self, bridge: Bridge, errands: Sequence[Errand]) -> None:
        for ending in await bridge.look(errands) if errands else []:
            with self._apart.item(f"the end of {ending.id}"):
                await self._errands.settle(ending)

    async def _check(self, bridge: Bridge, errands: Sequence[Errand]) -> None:
        """What ended while it was being begun may have been called off before it was there."""
        if not errands:
            return
        still = await self._errands.still_open([errand.id for errand in errands])
        for errand in errands:
            if errand.id not in still and await bridge.cancel(errand.id, errand.to):
                await self._errands.told(errand.task)  # asked again, the other side would know nothing of it

    async def _call_off(self, bridge: Bridge, ended: Sequence[TaskDefinition]) -> None:
        for task in ended:
            if task.uuid in self._in_vain:
                continue
            self._in_vain.add(task.uuid)
            try:
                known = await self._cancel(bridge, task)
            except (NotReady, StoreError):
                raise
            except Exception as error:  # nor must one that cannot be called off
                _log.warning("%s cannot be called off, trying again: %s", elsewhere_id(task), error)
                continue
            if known or wall_ms() - task.updated > _UNHEARD_MS:
                await self._errands.told(task)

    async def _cancel(self, bridge: Bridge, task: TaskDefinition) -> bool:
        """Whether anybody there knew of it."""
        ids, to = [elsewhere_id(task), *earlier_ids(task)[:1]], task.via.partition(":")[2]
        return any([await bridge.cancel(errand_id, to) for errand_id in ids])
