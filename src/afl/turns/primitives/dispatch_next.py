"""dispatch_next: the oldest queued turn of an idle agent becomes its active one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from afl.kernel.database import Row, Statement, Transaction
from afl.turns.cardbox.boxes import acquisition, fork
from afl.turns.context import TurnContext, context_of_row
from afl.turns.message import Message
from afl.turns.model import Head, InboxRow, L0Result, accepted, busy
from afl.turns.primitives.lease import Lease
from afl.turns.protocol.events import wakeup_message
from afl.turns.statuses import HeadStatus, WakeupReason
from afl.turns.store import inbox
from afl.turns.store.edges import Q
from afl.turns.store.heads import create_head, read_head, update_head


def dispatch_next(tx: Transaction, project_id: str, agent_id: str) -> L0Result:
    """Lease the oldest queued turn, if the agent is idle and there is one.

    The head is locked before the queue is read: of two transactions, one that ends a turn and one that enqueues, the
    later one sees what the other wrote.
    """
    head = read_head(tx, project_id, agent_id, lock=True) or create_head(tx, project_id, agent_id)
    if head.status is not HeadStatus.IDLE:
        return busy(f"agent {agent_id} has turn {head.active_agent_turn_id}")
    (queued,) = tx.each(oldest_queued(project_id, agent_id))
    return dispatch(tx, queued)


def oldest_queued(project_id: str, agent_id: str) -> Statement:
    """The statement that gives `dispatch` its row; the head is locked before it."""
    return inbox.Q.next_queued, {"project": project_id, "agent": agent_id}


def dispatch(tx: Transaction, queued: Sequence[Row]) -> L0Result:
    """Lease the turn of this message, if there is one, to its idle agent."""
    if not queued:
        return accepted({"dispatched": None})
    message = InboxRow.of(queued[0])
    context = context_of_row(message)
    leased = lease_turn(tx, context, message.inbox_id, message.payload, message.context_headers)
    if leased is None:
        return busy(f"agent {message.agent_id} was leased by another transaction")
    tx.queue(inbox.Q.promote, project=message.project_id, inbox=message.inbox_id, epoch=leased.turn_epoch)
    wakeup = dispatch_wakeup(context, leased, message.worker_target)
    return accepted({"dispatched": message.agent_turn_id} | leased.leased, signals=(wakeup,))


def dispatch_wakeup(context: TurnContext, head: Head, worker_target: str) -> Message:
    """The wake-up for the workers of a turn that was dispatched."""
    leased = replace(context, turn_epoch=head.turn_epoch)
    reason = WakeupReason.DISPATCH_NEXT
    return wakeup_message(leased, worker_target, context.agent_id, reason, head.active_inbox_id)


def lease_turn(
    tx: Transaction,
    context: TurnContext,
    inbox_id: str,
    payload: Mapping[str, Any],
    headers: Mapping[str, str],
) -> Head | None:
    """Lease the agent to a turn and its output box with it; None when the agent is busy. The agent has a head."""
    box = context.project_id, payload["output_box_id"], context.agent_turn_id
    lease = Lease(
        project_id=context.project_id,
        agent_id=context.agent_id,
        agent_turn_id=context.agent_turn_id,
        channel_id=context.channel_id,
        inbox_id=inbox_id,
        output_box_id=payload["output_box_id"],
        context_box_id=payload["context_box_id"],
        profile_box_id=payload["profile_box_id"],
        recursion_depth=context.recursion_depth,
        parent_step_id=context.parent_step_id or None,
        trace_id=context.trace_id,
        headers=headers,
    )
    acquired, leased = tx.each(acquisition(*box), lease.statement)
    if not leased:
        return None
    head = Head.of(leased[0])
    return head if acquired else update_head(tx, Q.use_output_box, head, box=fork(tx, *box))
