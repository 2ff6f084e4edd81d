"""The worker: waits for a wake-up, claims due messages, runs the turns they are about, and releases them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from afl.kernel.canceling import cancel_and_wait
from afl.kernel.database import Transaction
from afl.kernel.errors import AgentFlowError, FencedError, StoreError, StoreUnavailable
from afl.models import Model, PythonTool
from afl.turns.bus import WakeupSubscription
from afl.turns.engine import L0Engine
from afl.turns.model import EnteredTurn, FreeSlot, Head, InboxRow
from afl.turns.outages import STORE_BACKOFF
from afl.turns.store import inbox
from afl.turns.tools.dependencies import Dependencies
from afl.turns.tools.local import LocalTool, Toolbox
from afl.turns.watchdog import Watchdog
from afl.turns.worker.blocked_loop import BlockedLoopGuard
from afl.turns.worker.claims import Claimed, claim
from afl.turns.worker.held_leases import HeldLeases
from afl.turns.worker.messages import Handled, MessageHandler
from afl.turns.worker.services import WorkerLimits, WorkerServices
from afl.turns.worker.turn_driver import TurnDriver
from afl.turns.worker.turn_state import Q, TurnState

TARGET = "agents"
_STOPS = 20
_CLEAN_SECONDS = 600.0
_log = logging.getLogger("afl.turns")
_numbers = count(1)


class Worker:
    """Serves the agents of some targets: one turn at a time of each, many agents concurrently.

        worker = Worker(engine, model, tools=[weather])
        await worker.start()
        ...
        await worker.stop()

    Any number of workers, in any processes, share the work. The turns of one that dies are taken over by the others.
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
        deps: Any = None,
        poll_seconds: float = 1.0,
        watch_seconds: float = 2.0,
    ) -> None:
        toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        owner = f"{engine.database.presence.id}#{next(_numbers)}"
        self._services = WorkerServices(
            engine, model, toolbox, owner, limits or WorkerLimits(), models or {}, deps=Dependencies(deps)
        )
        self._engine = engine
        self.targets = tuple(targets)
        self.owner = owner  # this worker's name in the store
        self.watchdog = Watchdog(engine, owner, self.targets)
        self._messages = MessageHandler(self._services)
        self._driver = TurnDriver(self._services)
        self._poll_seconds = poll_seconds
        self._watch_seconds = watch_seconds
        self._subscription: WakeupSubscription | None = None
        self._held = HeldLeases(engine, owner, self._services.limits.concurrency)
        self._guard = BlockedLoopGuard(self._held.renew_seconds / 2, self._held.renew_blocked)
        self._loops: list[asyncio.Task[None]] = []
        self._handling: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def running_turns(self) -> list[str]:
        """The ids of the turns that it runs now."""
        return [held.turn_id for held in self._held.turns]

    async def start(self) -> None:
        """Open the dependencies and begin to work. The engine was started before."""
        await self._services.deps.open()
        try:
            self._subscription = await self._engine.bus.listen(self.targets)
        except BaseException:  # it has not started, and so nobody stops it
            await self._services.deps.close()
            raise
        loops = [self._claim_loop(), self._every(self._held.renew_seconds, self._held.renew)]
        if self._watch_seconds:
            loops.append(self._every(self._watch_seconds, self.watch))
            loops.append(self._every(_CLEAN_SECONDS, self._engine.content.clean))
        self._loops = [asyncio.create_task(loop) for loop in loops]
        self._guard.start()
        self._engine.workers.append(self)

    async def stop(self, grace: float = 5.0) -> None:
        """Claim nothing more, wait `grace` seconds for what is running, and release the rest to other workers."""
        self._stopping = True
        if self in self._engine.workers:
            self._engine.workers.remove(self)
        assert self._subscription is not None
        claiming, *others = self._loops
        self._subscription.wake()
        await asyncio.wait([claiming], timeout=grace)
        await self._finish_messages(grace)
        await self._held.drain(grace)
        await self._finish_messages(grace)
        await self._release_all()
        await cancel_and_wait([claiming, *others])
        await self._guard.close()
        await self._subscription.close()
        await self._services.close_mcp()
        self._services.close()
        await self._services.deps.close()

    async def _finish_messages(self, grace: float) -> None:
        """Wait for the messages that are being handled; while the store is unreachable they are given up."""
        tasks = list(self._handling)
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        await cancel_and_wait(tasks)

    async def _release_all(self) -> None:
        """Other workers get what is not done at once; if the store is unreachable, when its leases expire."""

        def work(tx: Transaction) -> None:
            inbox.release(tx, self.owner)
            tx.all(Q.leave_turns, owner=self.owner)

        try:
            await self._services.write(work)
        except StoreError as error:
            _log.warning("held turns wait until their leases expire: %s", error)

    # -- turns that are sent in this process ------------------------------------------------------------------

    def reserve_slot(self) -> FreeSlot | None:
        """See `LocalWorker`."""
        if self._subscription is None or self._stopping or self._held.free == 0:
            return None
        self._held.reserve(1)
        return FreeSlot(self.owner, self.targets, self._engine.limits.lease_ms)

    def release_slot(self, entered: EnteredTurn | None) -> None:
        """See `LocalWorker`."""
        self._held.release()
        if entered is not None:
            self._run_entered(entered)

    # -- claims -----------------------------------------------------------------------------------------------

    async def _claim_loop(self) -> None:
        """The subscription was made before the first claim, so that no wake-up is missed."""
        assert self._subscription is not None
        failures = 0
        while not self._stopping:
            try:
                more = await self._claim_some()
                failures = 0
            except Exception as error:  # whatever it is, the loop must go on
                failures += 1
                known = isinstance(error, StoreError)
                _log.warning("nothing can be claimed: %s; trying again", error, exc_info=not known)
                await asyncio.sleep(STORE_BACKOFF.delay(failures))
                continue
            if self._held.free == 0:
                await self._held.wait_free(self._poll_seconds)
            elif not more:
                await self._subscription.wait(self._poll_seconds)

    async def _claim_some(self) -> bool:
        """Claim as many due messages as there are free slots, and start to handle them; whether there may be more."""
        room = min(self._services.limits.claim, self._held.free)
        if room == 0:
            self._handle_all(await self._services.write(self._claim_stops))
            return False
        if not await inbox.is_worth_a_claim(self._engine.database, self.targets):
            return False
        claimed = await self._claim(room)
        for turn in claimed.turns:
            self._run_entered(turn)
        self._handle_all(claimed.rows)
        return len(claimed) == room

    async def _claim(self, room: int) -> Claimed:
        """Turns are entered with the claim. If one cannot be, messages are claimed only and handled one by one."""
        lease_ms = self._engine.limits.lease_ms
        try:
            return await self._services.write(
                lambda tx: claim(tx, targets=self.targets, owner=self.owner, limit=room, lease_ms=lease_ms)
            )
        except StoreUnavailable:
            raise
        except Exception as error:
            _log.warning("messages are claimed without entering turns: %s", error, exc_info=True)
        rows = await self._services.write(
            lambda tx: inbox.claim_due(tx, targets=self.targets, owner=self.owner, limit=room)
        )
        return Claimed(rows, ())

    def _claim_stops(self, tx: Transaction) -> list[InboxRow]:
        """With no free slot only stop messages are claimed."""
        rows = tx.all(Q.claim_stops, targets=list(self.targets), owner=self.owner, limit=_STOPS)
        return [InboxRow.of(row) for row in rows]

    # -- messages and turns -----------------------------------------------------------------------------------

    def _run_entered(self, turn: EnteredTurn) -> None:
        """Run a turn that was entered in this worker's name."""
        state = self._services.states.from_cache(turn.head, turn.step_id, turn.cards)
        if state is not None:
            self._held.run(state.head, self._drive(state))
        else:
            self._held.reserve(1)
            self._spawn(self._load_and_run(turn))

    async def _load_and_run(self, turn: EnteredTurn) -> None:
        """Read the profile and tools of a turn, and run it. If that fails, another worker takes the turn over."""
        try:
            await self._handled(await self._services.write(lambda tx: self._messages.load_entered(tx, turn)))
        except AgentFlowError as error:
            _log.warning("turn %s waits to be taken over: %s", turn.head.active_agent_turn_id, error)
        finally:
            self._held.release()

    def _handle_all(self, rows: Sequence[InboxRow]) -> None:
        """Messages of one agent are handled in the order of time, those of different agents concurrently."""
        by_agent: dict[tuple[str, str], list[InboxRow]] = {}
        for row in rows:
            by_agent.setdefault((row.project_id, row.agent_id), []).append(row)
        self._held.reserve(len(rows))
        for batch in by_agent.values():
            self._spawn(self._handle_in_order(batch))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)

    async def _handle_in_order(self, rows: list[InboxRow]) -> None:
        left = len(rows)
        try:
            for row in rows:
                await self._handle(row)
                self._held.release()
                left -= 1
        finally:
            self._held.release(left)

    async def _handle(self, row: InboxRow) -> None:
        """Handle one claimed message until it is consumed, deferred or refused, across outages of the store."""
        work: Callable[[Transaction], Handled] = partial(self._messages.handle, row=row)
        failures = 0
        while True:
            try:
                handled = await self._services.write(work)
                break
            except FencedError as error:
                work = partial(self._messages.defer, row=row, reason=str(error))
            except StoreUnavailable as error:
                _log.warning("message %s waits for the store: %s", row.inbox_id, error)
            except Exception as error:
                _log.exception("message %s cannot be handled", row.inbox_id)
                work = partial(self._messages.give_up, row=row, why=f"{type(error).__name__}: {error}")
            failures += 1
            await asyncio.sleep(STORE_BACKOFF.delay(failures))
        await self._handled(handled)

    async def _handled(self, handled: Handled) -> None:
        """After the commit of a message: publish, and run its turn."""
        self._engine.tell(*handled.events)
        self._engine.publish(*handled.results)
        if handled.retry_ms is not None and self._subscription is not None:
            asyncio.get_running_loop().call_later(handled.retry_ms / 1000, self._subscription.wake)
        if (ended := handled.ended) is not None:
            self._held.cancel((ended.project_id, ended.agent_id), ended.active_agent_turn_id)
            await self._driver.join_parent(ended)
        if handled.state is not None:
            self._held.run(handled.state.head, self._drive(handled.state))

    async def _drive(self, state: TurnState) -> None:
        """Run a turn. Its parent is joined apart from it, so that the agent's next turn may begin at once."""
        ended = await self._driver.drive(state)
        if ended is not None:
            self._spawn(self._driver.join_parent(ended))

    # -- periodic jobs ----------------------------------------------------------------------------------------

    async def _every(self, seconds: float, work: Callable[[], Any]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except StoreError as error:
                _log.warning("%s waits for the store: %s", work.__name__, error)
            except Exception:  # the next round may succeed, and without renewals every turn would be lost
                _log.exception("%s failed", work.__name__)

    async def watch(self) -> None:
        """One sweep of the watchdog; turns of lost workers are taken over and run here."""
        await self.watchdog.sweep()
        for head in await self.watchdog.lost_turns(self._held.free):
            handled = await self.watchdog.guarded(self._take_over, head)
            if handled is not None:
                await self._handled(handled)

    async def _take_over(self, head: Head) -> Handled:
        dead = await self.watchdog.dead_owners()
        return await self._services.write(lambda tx: self._messages.take_over(tx, head, dead))
