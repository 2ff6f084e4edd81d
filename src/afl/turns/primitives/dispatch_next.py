"""dispatch_next: the oldest queued turn of an idle agent becomes its active one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from afl.kernel.database import Transaction
from afl.turns.cardbox.boxes import acquire
from afl.turns.context import TurnContext, context_of_row
from afl.turns.message import Message
from afl.turns.model import Head, InboxRow, L0Result, accepted, busy
from afl.turns.primitives.lease import Lease, lease_agent_turn_with_conn
from afl.turns.protocol.events import wakeup_message
from afl.turns.statuses import HeadStatus, WakeupReason
from afl.turns.store import inbox
from afl.turns.store.heads import read_head


def dispatch_next(tx: Transaction, project_id: str, agent_id: str, *, locked: bool = False) -> L0Result:
    """Lease the oldest queued turn, if the agent is idle and there is one.

    The head is locked before the queue is read: of two transactions, one that ends a turn and one that enqueues, the
    later one sees what the other wrote. `locked`: the caller's transaction has locked the head, and it is idle.
    """
    if not locked:
        head = read_head(tx, project_id, agent_id, lock=True)
        if head is not None and head.status is not HeadStatus.IDLE:
            return busy(f"agent {agent_id} has turn {head.active_agent_turn_id}")
    queued = tx.one(inbox.Q.next_queued, project=project_id, agent=agent_id)
    if queued is None:
        return accepted({"dispatched": None})
    message = InboxRow.of(queued)
    context = context_of_row(message)
    leased = lease_turn(tx, context, message.inbox_id, message.payload, message.context_headers)
    if leased is None:
        return busy(f"agent {agent_id} was leased by another transaction")
    tx.queue(inbox.Q.promote, project=project_id, inbox=message.inbox_id, epoch=leased.turn_epoch)
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
    """Lease the agent to a turn and its output box with it; None when the agent is busy."""
    output = acquire(tx, context.project_id, payload["output_box_id"], context.agent_turn_id)
    lease = Lease(
        project_id=context.project_id,
        agent_id=context.agent_id,
        agent_turn_id=context.agent_turn_id,
        channel_id=context.channel_id,
        inbox_id=inbox_id,
        output_box_id=output,
        context_box_id=payload["context_box_id"],
        profile_box_id=payload["profile_box_id"],
        recursion_depth=context.recursion_depth,
        parent_step_id=context.parent_step_id or None,
        trace_id=context.trace_id,
        headers=headers,
    )
    return lease_agent_turn_with_conn(tx, lease)
