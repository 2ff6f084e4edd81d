"""dispatch_next: the oldest queued turn of an idle agent becomes its active one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from afl.kernel.codec import decode
from afl.kernel.database import Transaction
from afl.turns.cardbox.boxes import acquire
from afl.turns.context import TurnContext, context_of_headers, context_of_row
from afl.turns.model import Head, InboxRow, L0Result, accepted, busy
from afl.turns.primitives.lease import Lease, lease_agent_turn_with_conn
from afl.turns.primitives.sources import Q as CALLS
from afl.turns.protocol.events import wakeup_message
from afl.turns.statuses import HeadStatus, WakeupReason
from afl.turns.store import inbox
from afl.turns.store.edges import Q

_TOLD = ("inbox_id", "agent_turn_id", "worker_target", "channel_id", "context_headers")


def dispatch_next(tx: Transaction, project_id: str, agent_id: str, *, locked: bool = False) -> L0Result:
    """Lease the oldest queued turn, if the agent is idle and there is one.

    The head is locked before the queue is looked at: whoever ends a turn at the same moment sees the queue after
    us, or we see it after them. `locked`: the caller's transaction has the head, and it is idle.
    """
    if not locked:
        row = tx.one(Q.lock_head, project=project_id, agent=agent_id)
        if row is not None and row["status"] != HeadStatus.IDLE:
            return busy(f"agent {agent_id} has turn {row['active_agent_turn_id']}")
    if tx.dialect == "postgres":
        row = tx.one(CALLS.dispatch_next, project=project_id, agent=agent_id)
        return told(decode(row["next"]) if row is not None and row["next"] is not None else None)
    queued = tx.one(inbox.Q.next_queued, project=project_id, agent=agent_id)
    if queued is None:
        return told(None)
    message = InboxRow.of(queued)
    head = lease_queued(tx, message, context_of_row(message))
    if head is None:
        return busy(f"agent {agent_id} was leased by somebody else")
    return told({name: queued[name] for name in _TOLD} | head.leased)


def told(leased: Mapping[str, Any] | None) -> L0Result:
    """What is answered, and notified, for the turn that was leased; None: there was none."""
    if leased is None:
        return accepted({"dispatched": None})
    headers = decode(leased["context_headers"])
    context = replace(context_of_headers(headers), turn_epoch=leased["turn_epoch"])
    notify = wakeup_message(
        context,
        leased["worker_target"],
        context.agent_id,
        WakeupReason.DISPATCH_NEXT,
        leased["inbox_id"],
    )
    answer = {"dispatched": leased["agent_turn_id"]} | {
        name: leased[name] for name in ("turn_epoch", "output_box_id")
    }
    return accepted(answer, signals=(notify,))


def lease_queued(tx: Transaction, message: InboxRow, context: TurnContext) -> Head | None:
    """Give a queued turn its agent: the head is dispatched, the message pending under the new epoch."""
    head = lease_turn(tx, context, message.inbox_id, message.payload, message.context_headers)
    if head is not None:
        tx.run(inbox.Q.promote, project=message.project_id, inbox=message.inbox_id, epoch=head.turn_epoch)
    return head


def lease_turn(
    tx: Transaction,
    context: TurnContext,
    inbox_id: str,
    payload: Mapping[str, Any],
    headers: Mapping[str, str],
) -> Head | None:
    """Give a turn its agent and its output box; None when the agent is busy."""
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
