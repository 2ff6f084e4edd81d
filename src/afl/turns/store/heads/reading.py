"""Reading where an agent is."""

from __future__ import annotations

from afl.kernel.database import Transaction
from afl.turns.model import Head, WaitingTool
from afl.turns.store.edges import Q


def read_head(tx: Transaction, project_id: str, agent_id: str, *, lock: bool = False) -> Head | None:
    """The head; with `lock` nobody changes it before this transaction ends, so what is decided on it holds."""
    row = tx.one(Q.lock_head if lock else Q.read_head, project=project_id, agent=agent_id)
    return Head.of(row) if row is not None else None


def head_of_turn(tx: Transaction, project_id: str, turn_id: str) -> Head | None:
    """The head that a turn is active on; None when it is queued or over."""
    row = tx.one(Q.head_of_turn, project=project_id, turn=turn_id)
    return Head.of(row) if row is not None else None


def list_heads(tx: Transaction, project_id: str) -> list[Head]:
    return [Head.of(row) for row in tx.all(Q.list_heads, project=project_id)]


def read_waiting(tx: Transaction, head: Head) -> list[WaitingTool]:
    """The wait set of the active turn, with what was applied already."""
    rows = tx.all(
        Q.waiting,
        project=head.project_id,
        agent=head.agent_id,
        turn=head.active_agent_turn_id,
        epoch=head.turn_epoch,
    )
    return [WaitingTool.of(row) for row in rows]
