"""A new turn into the queue of its agent, and out of it when the agent is idle: what `enqueue` writes.

On PostgreSQL that is one call of a function, on SQLite statement by statement. None: there is such a message already.
"""

from __future__ import annotations

from dataclasses import replace

from afl.kernel.codec import decode, encode_rows
from afl.kernel.database import Transaction
from afl.turns.model import Begun, Head, L0Result, accepted
from afl.turns.primitives.dispatch_next import dispatch_next, lease_turn, told
from afl.turns.primitives.sources import Q
from afl.turns.primitives.spawning import Spawn, acknowledgement, edge_of, message_of
from afl.turns.protocol.events import wakeup_message
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import HeadStatus, InboxStatus, WakeupReason
from afl.turns.store import heads, inbox
from afl.turns.store.edges import Q as HEADS
from afl.turns.store.edges import add_edge
from afl.turns.worker.hosting import Hand


def queue(tx: Transaction, spawn: Spawn, hand: Hand | None = None) -> L0Result | None:
    """`hand`: a worker's, that has the turn at once if it is its agent's turn and the worker serves that."""
    if tx.dialect == "postgres":
        message, edges = message_of(spawn, InboxStatus.QUEUED, 0), [edge_of(spawn)]
        answered = tx.one(Q.enqueue, message=encode_rows(message), edges=encode_rows(edges))
        assert answered is not None
        answer = decode(answered["enqueued"])
        return None if "known" in answer else _told(spawn, told(answer.get("next")))
    return _run(tx, spawn, hand)


def _run(tx: Transaction, spawn: Spawn, hand: Hand | None) -> L0Result | None:
    """The head is locked first: whoever ends a turn at this moment sees the message, or we see the idle head."""
    project, agent = spawn.context.project_id, spawn.context.agent_id
    row = tx.one(HEADS.lock_head, project=project, agent=agent)
    is_idle = row is None or row["status"] == HeadStatus.IDLE
    if is_idle and tx.one(inbox.Q.next_queued, project=project, agent=agent) is None:
        return _straight(tx, spawn, (0 if row is None else row["turn_epoch"]) + 1, hand)
    if not _put(tx, spawn, InboxStatus.QUEUED, 0):
        return None
    return _told(spawn, dispatch_next(tx, project, agent, locked=True) if is_idle else told(None))


def _straight(tx: Transaction, spawn: Spawn, epoch: int, hand: Hand | None) -> L0Result | None:
    """The first message of an idle agent is its turn at once: it is never queued."""
    if not _put(tx, spawn, InboxStatus.PENDING, epoch):
        return None
    context = replace(spawn.context, turn_epoch=epoch)
    head = lease_turn(tx, context, spawn.inbox_id, spawn.payload, context.headers())
    assert head is not None and head.turn_epoch == epoch  # it was idle, and this transaction alone writes
    if hand is not None and spawn.worker_target in hand.targets:
        return _begun(tx, spawn, head, hand)
    notify = wakeup_message(
        context, spawn.worker_target, context.agent_id, WakeupReason.DISPATCH_NEXT, spawn.inbox_id
    )
    return accepted(acknowledgement(spawn, head.leased), signals=(notify,))


def _begun(tx: Transaction, spawn: Spawn, head: Head, hand: Hand) -> L0Result:
    """T3, and nobody is woken."""
    step = new_id("step")
    running = heads.enter_running(
        tx, head, inbox_id=spawn.inbox_id, owner=hand.owner, step_id=step, lease_ms=hand.lease_ms
    )
    return replace(accepted(acknowledgement(spawn, head.leased)), begun=Begun(running, step, ()))


def _put(tx: Transaction, spawn: Spawn, status: InboxStatus, epoch: int) -> bool:
    if not inbox.put(tx, message_of(spawn, status, epoch)):
        return False
    add_edge(tx, edge_of(spawn))
    return True


def _told(spawn: Spawn, following: L0Result) -> L0Result:
    """The agent's next turn may be another one, that waited longer."""
    mine = following.payload.get("dispatched") == spawn.context.agent_turn_id
    return accepted(acknowledgement(spawn, following.payload if mine else None), signals=following.signals)
