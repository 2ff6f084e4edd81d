"""The worker: claims messages when the notifier notifies or the clock says so, and runs the turns they are about."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from afl.kernel.cancelling import cancel_and_wait
from afl.kernel.database import Row, Transaction
from afl.kernel.errors import AgentFlowError, FencedError, StoreError, StoreUnavailable
from afl.models import Model, PythonTool
from afl.turns.bus import WakeupSubscription
from afl.turns.engine import L0Engine
from afl.turns.model import Begun, Head, InboxRow
from afl.turns.store import inbox
from afl.turns.tools.local import LocalTool, Toolbox
from afl.turns.watchdog import Watchdog
from afl.turns.worker.beginning import Claimed, begin
from afl.turns.worker.desk import AGAIN, Desk
from afl.turns.worker.driving import Driver
from afl.turns.worker.hands import Hands
from afl.turns.worker.hosting import Hand
from afl.turns.worker.leases import Leases
from afl.turns.worker.limits import WorkerLimits
from afl.turns.worker.messages import Led, Messages
from afl.turns.worker.scene import Q, Scene

TARGET = "agents"
_STOPS = 20
_log = logging.getLogger("afl.turns")
_numbers = count(1)


class Worker:
    """Serves the agents of some targets: one turn at a time of each, of many agents at once.

        worker = Worker(engine, model, tools=[weather])
        await worker.start()
        ...
        await worker.stop()

    Any number of workers, here and elsewhere, share the work. Whoever dies is replaced by any other.
    """

    def __init__(
        self,
        engine: L0Engine,
        model: Model,
        *,
        tools: Iterable[Callable[..., Any] | PythonTool | LocalTool] | Toolbox = (),
        targets: Iterable[str] = (TARGET,),
        limits: WorkerLimits | None = None,
        models: Mapping[str, Model] | None = None,
        poll_seconds: float = 1.0,
        watch_seconds: float = 2.0,
    ) -> None:
        toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        owner = f"{engine.database.presence.id}#{next(_numbers)}"
        self.desk = Desk(engine, model, toolbox, owner, limits or WorkerLimits(), models or {})
        self.targets = tuple(targets)
        self.watchdog = Watchdog(engine, self.desk.owner, self.targets)
        self._messages = Messages(self.desk)
        self._driver = Driver(self.desk)
        self._poll_seconds = poll_seconds
        self._watch_seconds = watch_seconds
        self._subscription: WakeupSubscription | None = None
        self._hands: Hands | None = None
        self._loops: list[asyncio.Task[None]] = []
        self._handling: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def owner(self) -> str:
        """This worker's name in the store."""
        return self.desk.owner

    async def start(self) -> None:
        """Begin to work. The engine was started before."""
        self._hands = Hands(self.desk.limits.concurrency)
        self._subscription = await self.desk.engine.bus.listen(self.targets)
        leases = Leases(self.desk, self._hands)
        loops = [self._claiming(), self._every(leases.seconds, leases.renew)]
        if self._watch_seconds:
            loops.append(self._every(self._watch_seconds, self._watch))
        self._loops = [asyncio.create_task(loop) for loop in loops]
        self.desk.engine.hosts.append(self)

    async def stop(self, grace: float = 5.0) -> None:
        """Take no more messages, let what is under way end within `grace` seconds, and leave the rest to others."""
        self._stopping = True
        if self in self.desk.engine.hosts:
            self.desk.engine.hosts.remove(self)
        assert self._hands is not None and self._subscription is not None
        claiming, *others = self._loops
        self._subscription.wake()
        await asyncio.wait([claiming], timeout=grace)
        await self._handled(grace)
        await self._hands.drain(grace)
        await self._handled(grace)
        await self._leave()
        await cancel_and_wait([claiming, *others])
        await self._subscription.close()
        self.desk.close()

    async def _handled(self, grace: float) -> None:
        """Wait for the messages in hand; with the store away they cannot be handled, and are given up."""
        tasks = list(self._handling)
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        await cancel_and_wait(tasks)

    async def _leave(self) -> None:
        """What is not done goes on elsewhere at once; with the store away, when its lease ends."""
        try:
            await self.desk.engine.alone(lambda tx: inbox.release(tx, self.owner))
            await self.desk.engine.alone(lambda tx: tx.all(Q.leave_turns, owner=self.owner))
        except StoreError as error:
            _log.warning("turns in hand are left to their leases: %s", error)

    # -- turns that are sent from here ------------------------------------------------------------------------

    def offer(self) -> Hand | None:
        """See `Host`."""
        if self._hands is None or self._stopping or self._hands.free == 0:
            return None
        self._hands.reserve(1)
        return Hand(self.owner, self.targets, self.desk.engine.limits.lease_ms)

    def accept(self, begun: Begun | None) -> None:
        """See `Host`."""
        assert self._hands is not None
        self._hands.release()
        if begun is not None:
            self._take(begun)

    # -- claims -----------------------------------------------------------------------------------------------

    async def _claiming(self) -> None:
        """Listen, look, wait; never look before listening."""
        assert self._subscription is not None and self._hands is not None
        failures = 0
        while not self._stopping:
            try:
                more = await self._claim_some()
                failures = 0
            except Exception as error:  # whatever it is, this claim must not be the last
                failures += 1
                known = isinstance(error, StoreError)
                _log.warning("nothing can be claimed: %s; trying again", error, exc_info=not known)
                await asyncio.sleep(AGAIN.delay(failures))
                continue
            if self._hands.free == 0:
                await self._hands.wait_free(self._poll_seconds)
            elif not more:
                await self._subscription.wait(self._poll_seconds)

    async def _claim_some(self) -> bool:
        """Take due messages, as many as there are hands for, and have them handled; whether there may be more."""
        assert self._hands is not None
        room = min(self.desk.limits.claim, self._hands.free)
        if room == 0:
            stops = await self.desk.engine.alone(self._claim_stops)
            self._handle_all([InboxRow.of(row) for row in stops])
            return False
        if not await self._is_due():
            return False
        claimed = await self._claimed(room)
        for turn in claimed.turns:
            self._take(turn)
        self._handle_all(claimed.rows)
        return len(claimed) == room

    async def _is_due(self) -> bool:
        """Whether a claim is worth it. On SQLite every commit wakes us, and a look does not stop the one who writes."""
        database = self.desk.engine.database
        if database.dialect != "sqlite":
            return True
        (row,) = await self.desk.engine.select(inbox.Q.next_due, targets=list(self.targets))
        return row["due"] is not None and bool(row["due"] <= database.now())

    async def _claimed(self, room: int) -> Claimed:
        """Turns are entered with the claim. One that cannot be must not keep the others: then each is handled apart."""
        try:
            return await self.desk.engine.alone(lambda tx: self._begin(tx, room))
        except StoreUnavailable:
            raise
        except Exception as error:
            _log.warning("messages are claimed and handled apart: %s", error, exc_info=True)
        rows = await self.desk.write(
            lambda tx: inbox.claim_due(tx, targets=self.targets, owner=self.owner, limit=room)
        )
        return Claimed(rows, ())

    def _begin(self, tx: Transaction, room: int) -> Claimed:
        lease_ms = self.desk.engine.limits.lease_ms
        return begin(tx, targets=self.targets, owner=self.owner, limit=room, lease_ms=lease_ms)

    def _take(self, turn: Begun) -> None:
        """Run a turn that was entered in this worker's name."""
        assert self._hands is not None
        scene = self.desk.scenes.at_once(turn.head, turn.step_id, turn.cards)
        if scene is not None:
            self._hands.take(scene.head, partial(self._drive, scene))
        else:
            self._hands.reserve(1)
            self._spawn(self._open(turn))

    async def _open(self, turn: Begun) -> None:
        """Read what is missing to run a turn. When the store stays away, somebody takes it over later."""
        assert self._hands is not None
        try:
            await self._led(await self.desk.write(lambda tx: self._messages.open(tx, turn)))
        except AgentFlowError as error:
            _log.warning("turn %s waits to be taken over: %s", turn.head.active_agent_turn_id, error)
        finally:
            self._hands.release()

    def _claim_stops(self, tx: Transaction) -> list[Row]:
        """With no hand free only what asks for an end is taken."""
        return tx.all(Q.claim_stops, targets=list(self.targets), owner=self.owner, limit=_STOPS)

    def _handle_all(self, rows: Sequence[InboxRow]) -> None:
        """Messages of one agent one after another, in the order of time; those of different agents side by side."""
        by_agent: dict[tuple[str, str], list[InboxRow]] = {}
        for row in rows:
            by_agent.setdefault((row.project_id, row.agent_id), []).append(row)
        assert self._hands is not None
        self._hands.reserve(len(rows))
        for batch in by_agent.values():
            self._spawn(self._handle_in_order(batch))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)

    async def _handle_in_order(self, rows: list[InboxRow]) -> None:
        assert self._hands is not None
        left = len(rows)
        try:
            for row in rows:
                await self._handle(row)
                self._hands.release()
                left -= 1
        finally:
            self._hands.release(left)

    async def _handle(self, row: InboxRow) -> None:
        """One claimed message, to its end: no message stays claimed by a worker that lives and has forgotten it."""
        work: Callable[[Transaction], Led] = partial(self._messages.handle, row=row)
        failures = 0
        while True:
            try:
                led = await self.desk.write(work)
                break
            except FencedError as error:
                work = partial(self._messages.put_off, row=row, reason=str(error))
            except StoreUnavailable as error:
                _log.warning("message %s waits for the store: %s", row.inbox_id, error)
            except Exception as error:
                _log.exception("message %s cannot be handled", row.inbox_id)
                work = partial(self._messages.give_up, row=row, why=f"{type(error).__name__}: {error}")
            failures += 1
            await asyncio.sleep(AGAIN.delay(failures))
        await self._led(led)

    async def _led(self, led: Led) -> None:
        """After the commit: tell, and run what is to be run."""
        assert self._hands is not None
        engine = self.desk.engine
        engine.tell(*led.events)
        engine.publish(*led.results)
        if led.retry_ms is not None and self._subscription is not None:
            asyncio.get_running_loop().call_later(led.retry_ms / 1000, self._subscription.wake)
        if led.over is not None:
            self._hands.drop((led.over.project_id, led.over.agent_id), led.over.active_agent_turn_id)
            await self._driver.join(led.over)
        if led.scene is not None:
            self._hands.take(led.scene.head, partial(self._drive, led.scene))

    async def _drive(self, scene: Scene) -> None:
        """Run a turn. What its end means to others is no part of it: the agent's next turn may begin at once."""
        ended = await self._driver.drive(scene)
        if ended is not None:
            self._spawn(self._driver.join(ended))

    # -- what the clock brings --------------------------------------------------------------------------------

    async def _every(self, seconds: float, work: Callable[[], Any]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except StoreError as error:
                _log.warning("%s waits for the store: %s", work.__name__, error)
            except Exception:  # the next round may go well, and without renewals every turn would be lost
                _log.exception("%s failed", work.__name__)

    async def _watch(self) -> None:
        await self.watch()

    async def watch(self) -> None:
        """One sweep: what nobody moves is moved, and turns of workers that were lost go on here."""
        await self.watchdog.sweep()
        assert self._hands is not None
        for head in await self.watchdog.lost_turns(self._hands.free):
            led = await self.watchdog.guarded(self._taken, head)
            if led is not None:
                await self._led(led)

    async def _taken(self, head: Head) -> Led:
        dead = await self.watchdog.dead_owners()
        return await self.desk.write(lambda tx: self._messages.take_over(tx, head, dead))
