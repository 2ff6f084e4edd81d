"""L0Engine: the primitives as methods, and how their transactions run and are published."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from afl.kernel.database import Database, Transaction
from afl.kernel.notify import Notifier, open_notifier
from afl.turns.bus.base import Bus
from afl.turns.bus.relay import Relay
from afl.turns.cardbox.cards import NewCard
from afl.turns.content.blob_store import BlobStore
from afl.turns.content.keeper import ContentKeeper
from afl.turns.context import TurnContext
from afl.turns.intents import AddressIntent, CommandIntent, JoinIntent, ReportIntent, SpawnIntent
from afl.turns.message import Message
from afl.turns.model import EnteredTurn, FreeSlot, Head, L0Result, Limits, TurnRef
from afl.turns.primitives.cancel import cancel
from afl.turns.primitives.command_intent import command_intent
from afl.turns.primitives.dispatch_next import dispatch_next
from afl.turns.primitives.enqueue import enqueue
from afl.turns.primitives.join import join
from afl.turns.primitives.lease import Lease, lease_agent_turn_with_conn
from afl.turns.primitives.report import report
from afl.turns.primitives.send import send
from afl.turns.primitives.stop import stop
from afl.turns.primitives.takeover import takeover
from afl.turns.primitives.wakeup import wakeup
from afl.turns.protocol.events import state_event
from afl.turns.statuses import WakeupReason
from afl.turns.store.tables import ensure_tables
from afl.turns.topics import changed_topic, turn_topic
from afl.turns.tracing import record_end

T = TypeVar("T")


class LocalWorker(Protocol):
    """A worker of this process, as `L0Engine.send` uses it: it may enter a turn in the transaction that sends it."""

    def reserve_slot(self) -> FreeSlot | None:
        """Reserve a slot for a turn that is being sent; None when none is free."""

    def release_slot(self, entered: EnteredTurn | None) -> None:
        """Run the turn that was entered with the slot; None: none was."""


class L0Engine:
    """A library, not a service: every process that takes part has one.

        result = await engine.run(lambda tx: engine.enqueue(tx, context, intent))

    `run` commits, then publishes. Whoever has a transaction of its own calls the primitives in it, and `publish`
    with what they returned once it has committed.
    """

    def __init__(
        self,
        database: Database,
        bus: Bus,
        limits: Limits | None = None,
        blobs: str | BlobStore = "",
    ) -> None:
        self.database = database
        self.bus = bus
        self.limits = limits or Limits()
        self.content = ContentKeeper(database, self.limits, blobs)
        self.relay = Relay(database, bus)
        self.workers: list[LocalWorker] = []  # those of this process
        self.notifier: Notifier = open_notifier(database)  # for those who read a turn's events
        ensure_tables(database)

    async def start(self, *, relay: bool = True) -> None:
        """Start the bus and, unless `relay` is False, this process's relay."""
        await self.bus.start()
        if relay:
            await self.relay.start()

    async def close(self) -> None:
        await self.relay.close()
        await self.bus.close()
        self.notifier.close()

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """A transaction, and after its commit the signals of the result it returned."""
        result = await self.database.run("write", work)
        if isinstance(result, L0Result):
            self.publish(result)
        return result

    async def send(self, context: TurnContext, agent_id: str, cards: Sequence[NewCard]) -> L0Result:
        """A turn that reads new cards, from outside; a worker of this process with a free slot enters it at once."""
        for worker in self.workers:
            slot = worker.reserve_slot()
            if slot is not None:
                return await self._send_to(worker, slot, context, agent_id, cards)
        return await self.run(lambda tx: send(tx, context, agent_id, cards, self.limits))

    async def _send_to(
        self,
        worker: LocalWorker,
        slot: FreeSlot,
        context: TurnContext,
        agent_id: str,
        cards: Sequence[NewCard],
    ) -> L0Result:
        """The caller may be canceled during the commit: the worker then runs the turn all the same.

        Should the transaction have been rolled back, the first transition of the turn is fenced.
        """
        results: list[L0Result] = []

        def work(tx: Transaction) -> L0Result:
            results.append(send(tx, context, agent_id, cards, self.limits, slot))
            return results[-1]

        committed = False
        try:
            result = await self.run(work)
            committed = True
            return result
        except asyncio.CancelledError:
            committed = True
            raise
        finally:
            worker.release_slot(results[-1].entered if committed and results else None)

    def publish(self, *results: L0Result, events: Iterable[Message] = ()) -> None:
        """Publish the signals and events of a transaction that has committed; notify the relay of its outbox rows."""
        messages = [message for result in results for message in result.signals]
        if any(result.stored for result in results):
            self.relay.notify()
        for ended in (result.ended for result in results if result.ended is not None):
            if ended.span is not None:
                record_end(ended.span)
            messages.append(state_event(ended.head, before=ended.before, error=ended.error))
        self.tell(*messages, *events)

    def tell(self, *messages: Message) -> None:
        """Publish messages outside of the outbox, best effort: `evt.*.state`, `evt.*.step`, wake-ups."""
        for message in messages:
            self.bus.publish(message)
        for topic in {topic for message in messages if (topic := changed_topic(message))}:
            self.notifier.notify(topic)

    def changed(self, turn_id: str) -> None:
        """Notify those who read the events of a turn that there is something new."""
        self.notifier.notify(turn_topic(turn_id))

    def enqueue(self, tx: Transaction, context: TurnContext, intent: SpawnIntent) -> L0Result:
        return enqueue(tx, context, intent, self.limits)

    def report(self, tx: Transaction, context: TurnContext, intent: ReportIntent) -> L0Result:
        return report(tx, context, intent)

    def join(self, tx: Transaction, context: TurnContext, intent: JoinIntent) -> L0Result:
        return join(tx, context, intent)

    def command_intent(self, tx: Transaction, context: TurnContext, intent: CommandIntent) -> L0Result:
        return command_intent(tx, context, intent)

    def wakeup(
        self,
        tx: Transaction,
        project_id: str,
        agent_id: str,
        reason: WakeupReason = WakeupReason.WATCHDOG_PENDING,
        *,
        dispatch: bool = False,
    ) -> L0Result:
        return wakeup(tx, project_id, agent_id, reason, dispatch=dispatch)

    def dispatch_next(self, tx: Transaction, project_id: str, agent_id: str) -> L0Result:
        return dispatch_next(tx, project_id, agent_id)

    def lease_agent_turn_with_conn(self, conn: Transaction, lease: Lease) -> Head | None:
        return lease_agent_turn_with_conn(conn, lease)

    def takeover(self, tx: Transaction, turn: TurnRef, owner: str, *, dead: Iterable[str] = ()) -> L0Result:
        return takeover(tx, turn, owner, dead=dead, limits=self.limits)

    def cancel(
        self, tx: Transaction, context: TurnContext, turn: TurnRef, reason: str = "canceled"
    ) -> L0Result:
        return cancel(tx, context, turn, reason)

    def stop(self, tx: Transaction, context: TurnContext, intent: AddressIntent) -> L0Result:
        return stop(tx, context, intent)
