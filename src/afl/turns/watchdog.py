"""The watchdog: finds turns and messages that no worker advances. Any worker runs it, several may at once.

Every item it finds is a transaction of its own: an error is logged, and the other items are processed all the
same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from afl.kernel.database import Transaction
from afl.kernel.isolation import Isolation
from afl.kernel.presence.base import Life
from afl.turns.budgets.accounts import prune_budgets
from afl.turns.cardbox.card_store import save_result
from afl.turns.cardbox.cards import NewCard
from afl.turns.engine import L0Engine
from afl.turns.intents import ReportIntent
from afl.turns.message import Message
from afl.turns.model import Head, L0Result, accepted
from afl.turns.orchestration.fork_join import join_batch, ripe_batches
from afl.turns.primitives.dispatch_next import dispatch_next
from afl.turns.primitives.wakeup import wakeup
from afl.turns.resources import get_agent, get_tools
from afl.turns.statuses import (
    AfterExecution,
    CardType,
    HeadStatus,
    InboxStatus,
    MessageType,
    TaskStatus,
    WaitStatus,
    WakeupReason,
)
from afl.turns.store import approvals, heads, inbox, stale_turns
from afl.turns.store.stale_turns import ExpiredWait
from afl.turns.tools.outcome import failed
from afl.turns.transitions import fail_turn, record_timeouts

AUTHOR = "sys.watchdog"
STALE_MS = 300_000
PENDING_MS = 5_000
DISPATCHED_MS = 10_000
SUSPENDED_MS = 60_000
PRUNE_SECONDS = 3600.0
_OVER = (InboxStatus.CONSUMED, InboxStatus.ERROR, InboxStatus.SKIPPED)
_log = logging.getLogger("afl.turns")
T = TypeVar("T")
A = TypeVar("A")


class Watchdog:
    """For the worker `owner` of some targets."""

    def __init__(self, engine: L0Engine, owner: str, targets: Iterable[str]) -> None:
        self._engine = engine
        self._owner = owner
        self._targets = frozenset(targets)
        self._apart = Isolation(_log, "the watchdog")
        self._prune_at = 0.0

    async def sweep(self) -> None:
        """Everything but the turns of lost workers: a worker takes those over (`lost_turns`)."""
        dead = await self.dead_owners()
        with self._apart.item("stale claims"):
            await self._requeue(dead)
        await self._each(stale_turns.expired_waits, self._time_out)
        await self._each(stale_turns.idle_with_queue, self._dispatch)
        await self._each(lambda tx: stale_turns.unclaimed_agents(tx, PENDING_MS), self._notify)
        await self._each(
            lambda tx: stale_turns.stuck_heads(tx, HeadStatus.DISPATCHED, DISPATCHED_MS), self._undispatched
        )
        await self._each(
            lambda tx: stale_turns.stuck_heads(tx, HeadStatus.SUSPENDED, SUSPENDED_MS), self._unanswered
        )
        await self._each(ripe_batches, self._join)
        await self._each(approvals.unawaited, self._close_approval)
        with self._apart.item("old budgets"):
            await self._prune()

    async def lost_turns(self, limit: int) -> list[Head]:
        """Running turns of these targets whose lease ended or whose worker is dead."""
        dead = await self.dead_owners()
        found = await self._read(lambda tx: stale_turns.unleased_turns(tx, dead, max(1, limit)))
        return [head for head in found if await self._is_ours(head)][:limit]

    async def dead_owners(self) -> list[str]:
        """Workers that hold a lease or a claim and are proven dead."""

        def holders(tx: Transaction) -> set[str]:
            running = {head.owner for head in stale_turns.running_of_others(tx, self._owner)}
            return running | set(inbox.claimers(tx))

        found = await self._read(holders)
        return [owner for owner in found if await asyncio.to_thread(self._is_dead, owner)]

    async def guarded(self, work: Callable[[A], Awaitable[T]], thing: A) -> T | None:
        """One item; an error is logged, and the next item is processed all the same."""
        found: T | None = None
        with self._apart.item(repr(thing)):
            found = await work(thing)
        return found

    async def _each(
        self, find: Callable[[Transaction], Sequence[A]], work: Callable[[Transaction, A], L0Result | None]
    ) -> None:
        """A read, then a transaction for each item found, and its signals after the commit."""

        async def one(thing: A) -> None:
            result = await self._engine.database.run("write", lambda tx: work(tx, thing))
            if result is not None:
                self._engine.publish(result)

        with self._apart.item(f"what {work.__name__} is for"):
            for thing in await self._read(find):
                await self.guarded(one, thing)

    async def _read(self, find: Callable[[Transaction], T]) -> T:
        return await self._engine.database.run("read", find)

    def _is_dead(self, owner: str) -> bool:
        return self._engine.database.presence.proof(owner.split("#", maxsplit=1)[0]) is Life.DEAD

    async def _is_ours(self, head: Head) -> bool:
        agent = await self._read(lambda tx: get_agent(tx, head.project_id, head.agent_id))
        return agent is not None and agent.worker_target in self._targets

    # -- actions ----------------------------------------------------------------------------------------------

    async def _requeue(self, dead: Sequence[str]) -> None:
        """Requeue messages whose claim is too old or whose claimer is dead."""

        def work(tx: Transaction) -> list[Message]:
            rows = inbox.requeue_stale(tx, older_ms=STALE_MS, dead_owners=dead)
            agents = dict.fromkeys((row.project_id, row.agent_id) for row in rows)
            notifications = [wakeup(tx, *agent, WakeupReason.WATCHDOG_RETRANSMIT) for agent in agents]
            return [message for notify in notifications for message in notify.signals]

        self._engine.tell(*await self._engine.database.run("write", work))

    async def _prune(self) -> None:
        """Every hour, and with the first sweep."""
        now = time.monotonic()
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_SECONDS
            await self._engine.database.run("write", prune_budgets)

    def _time_out(self, tx: Transaction, wait: ExpiredWait) -> L0Result | None:
        """Report the timeout of a call; if its result card exists and only the report was lost, report that."""
        project, call = wait.turn.project_id, wait.tool_call_id
        head = heads.read_head(tx, project, wait.turn.agent_id, lock=True)
        if head is None or not wait.is_of(head):
            return None  # it changed since the read
        late = self._timeout_card(tx, wait)
        card = save_result(tx, project, late)
        kind = MessageType.TIMEOUT if card.card_id == late.card_id else MessageType.TOOL_RESULT
        payload = {
            "status": card.content["status"],
            "after_execution": card.content["after_execution"],
            "tool_result_card_id": card.card_id,
        }
        intent = ReportIntent(wait.turn, payload, call, kind)
        result = self._engine.report(tx, wait.context(AUTHOR), intent)
        if result.accepted:
            record_timeouts(tx, head)
            return result
        why = f"the end of {wait.tool_name}'s time could not be reported: {result.error}"
        return fail_turn(tx, head, error=why, error_code="tool_timeout", status=TaskStatus.TIMEOUT)

    def _timeout_card(self, tx: Transaction, wait: ExpiredWait) -> NewCard:
        tools = get_tools(tx, wait.turn.project_id, [wait.tool_name])
        after = tools[0].after_execution if tools else AfterExecution.SUSPEND
        said = f"{wait.tool_name} did not answer in its time"
        return NewCard(
            CardType.TOOL_RESULT,
            failed("tool_timeout", said, status=TaskStatus.TIMEOUT, after_execution=after).content(),
            AUTHOR,
            agent_turn_id=wait.turn.agent_turn_id,
            step_id=wait.step_id,
            tool_call_id=wait.tool_call_id,
            function_name=wait.tool_name,
        )

    def _dispatch(self, tx: Transaction, agent: tuple[str, str]) -> L0Result | None:
        return dispatch_next(tx, *agent)

    def _notify(self, tx: Transaction, agent: stale_turns.DueAgent) -> L0Result | None:
        return wakeup(tx, agent.project_id, agent.agent_id, WakeupReason.WATCHDOG_PENDING)

    def _undispatched(self, tx: Transaction, found: Head) -> L0Result | None:
        """A turn that no worker enters: its workers are woken; if its message is gone, the turn fails."""
        head = heads.read_head(tx, found.project_id, found.agent_id, lock=True)
        if head is None or head.gate != found.gate:
            return None
        message = inbox.turn_row(tx, head.project_id, head.active_agent_turn_id or "")
        if message is not None and message.status not in _OVER:
            return wakeup(tx, head.project_id, head.agent_id, WakeupReason.WATCHDOG_RETRANSMIT)
        why = "the message that was to begin this turn is gone"
        return fail_turn(tx, head, error=why, error_code="dispatch_lost")

    def _unanswered(self, tx: Transaction, found: Head) -> L0Result | None:
        """A turn that waits in vain: none of its calls is waiting, and no message is open."""
        head = heads.read_head(tx, found.project_id, found.agent_id, lock=True)
        if head is None or head.gate != found.gate:
            return None
        running = any(wait.wait_status is WaitStatus.WAITING for wait in heads.read_waiting(tx, head))
        if running or inbox.has_open_inbox(tx, head.project_id, head.agent_id):
            return None
        return fail_turn(tx, head, error="what this turn waits for is lost", error_code="wait_lost")

    def _close_approval(self, tx: Transaction, approval_id: str) -> L0Result | None:
        approvals.close_unawaited(tx, approval_id)
        return None

    def _join(self, tx: Transaction, batch: tuple[str, str]) -> L0Result | None:
        return accepted(signals=join_batch(tx, *batch), stored=1)
