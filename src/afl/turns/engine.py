"""L0Engine: the primitives as methods, and how their transactions run and are told of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from afl.kernel.database import Database, Query, Row, Transaction
from afl.turns.bus.base import Bus
from afl.turns.bus.relay import Relay
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import TurnContext
from afl.turns.intents import AddressIntent, CommandIntent, JoinIntent, ReportIntent, SpawnIntent
from afl.turns.message import Message
from afl.turns.model import Head, L0Result, Limits, TurnRef
from afl.turns.primitives.cancel import cancel
from afl.turns.primitives.command_intent import command_intent
from afl.turns.primitives.dispatch_next import dispatch_next
from afl.turns.primitives.enqueue import enqueue
from afl.turns.primitives.join import join
from afl.turns.primitives.lease import Lease, lease_agent_turn_with_conn
from afl.turns.primitives.report import report
from afl.turns.primitives.sending import send
from afl.turns.primitives.stop import stop
from afl.turns.primitives.takeover import takeover
from afl.turns.primitives.wakeup import wakeup
from afl.turns.protocol.events import state_event
from afl.turns.statuses import WakeupReason
from afl.turns.store.alone import Alone
from afl.turns.store.tables import ensure_tables
from afl.turns.worker import tracing
from afl.turns.worker.hosting import Hand, Host

T = TypeVar("T")


class L0Engine:
    """A library, not a service: every process that takes part has one.

        result = await engine.run(lambda tx: engine.enqueue(tx, context, intent))

    `run` commits, then publishes. Whoever has a transaction of its own calls the primitives in it, and `publish`
    with what they returned once it has committed.
    """

    def __init__(self, database: Database, bus: Bus, limits: Limits | None = None) -> None:
        self.database = database
        self.bus = bus
        self.limits = limits or Limits()
        self.relay = Relay(database, bus)
        self.hosts: list[Host] = []  # the workers of this process
        self._alone = Alone(database)
        ensure_tables(database)

    async def start(self, *, relay: bool = True) -> None:
        """Begin to listen and, unless told otherwise, to take part in publishing the outbox."""
        await self.bus.start()
        if relay:
            await self.relay.start()

    async def close(self) -> None:
        await self.relay.close()
        await self.bus.close()
        self._alone.close()

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """A transaction, and after its commit the signals of the result it returned."""
        result = await self.database.run("write", work)
        if isinstance(result, L0Result):
            self.publish(result)
        return result

    async def alone(self, work: Callable[[Transaction], T]) -> T:
        """`run` for work that is one statement: a transition of a head, a claim. Three times as fast on PostgreSQL."""
        result = await self._alone.run(work)
        if isinstance(result, L0Result):
            self.publish(result)
        return result

    async def send(self, context: TurnContext, agent_id: str, cards: Sequence[NewCard]) -> L0Result:
        """A turn that reads new cards, from outside; a worker of this process with a free hand has it at once."""
        for host in self.hosts:
            hand = host.offer()
            if hand is not None:
                return await self._send_to(host, hand, context, agent_id, cards)
        return await self.alone(lambda tx: send(tx, context, agent_id, cards, self.limits))

    async def _send_to(
        self, host: Host, hand: Hand, context: TurnContext, agent_id: str, cards: Sequence[NewCard]
    ) -> L0Result:
        """Whoever waits here may be cancelled while the turn begins: then it is in the hand all the same.

        Should its transaction not have come to pass either, the first transition of the turn finds that out.
        """
        results: list[L0Result] = []

        def work(tx: Transaction) -> L0Result:
            results.append(send(tx, context, agent_id, cards, self.limits, hand))
            return results[-1]

        landed = False
        try:
            result = await self.alone(work)
            landed = True
            return result
        except asyncio.CancelledError:
            landed = True
            raise
        finally:
            host.accept(results[-1].begun if landed and results else None)

    async def select(self, query: Query, **params: Any) -> list[Row]:
        """One statement that reads a few rows."""
        return await self._alone.select(query, **params)

    def publish(self, *results: L0Result) -> None:
        """Ring for what was written; of a transaction that has committed."""
        for result in results:
            self.tell(*result.signals)
            if result.ended is not None:
                tracing.tell(result.ended)
        left = [each for result in results for each in result.left]
        stored = sum(result.stored for result in results)
        if stored:  # first: many may wait for what it publishes
            self.relay.poke(left if len(left) == stored else ())
        for over in (result.over for result in results if result.over is not None):
            self.tell(state_event(over.head, before=over.before, error=over.error))

    def tell(self, *messages: Message) -> None:
        """Best effort: `evt.*.state`, `evt.*.step`, wake-ups."""
        for message in messages:
            self.bus.publish(message)

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
