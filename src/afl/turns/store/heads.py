"""The head of an agent: the row that says which turn it runs, and the fence that every write of a turn passes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.kernel.database import Query, Row, Statement, Transaction
from afl.kernel.errors import FencedError
from afl.kernel.lease import LEASE_MS
from afl.turns.model import Head, WaitingTool
from afl.turns.store.edges import Q


def read_head(tx: Transaction, project_id: str, agent_id: str, *, lock: bool = False) -> Head | None:
    """The head. `lock` locks its row until the transaction ends."""
    row = tx.one(Q.lock_head if lock else Q.read_head, project=project_id, agent=agent_id)
    return Head.of(row) if row is not None else None


def locking(project_id: str, agent_id: str) -> Statement:
    """The statement that locks a head and gives its row."""
    return Q.lock_head, {"project": project_id, "agent": agent_id}


def create_head(tx: Transaction, project_id: str, agent_id: str) -> Head:
    """The locked head of an agent that never had a turn: an idle one, unless another transaction was first."""
    tx.run(Q.ensure_head, project=project_id, agent=agent_id)
    head = read_head(tx, project_id, agent_id, lock=True)
    assert head is not None
    return head


def head_of_turn(tx: Transaction, project_id: str, turn_id: str) -> Head | None:
    """The head on which a turn is active; None when the turn is queued or over."""
    row = tx.one(Q.head_of_turn, project=project_id, turn=turn_id)
    return Head.of(row) if row is not None else None


def list_heads(tx: Transaction, project_id: str) -> list[Head]:
    return [Head.of(row) for row in tx.all(Q.list_heads, project=project_id)]


def read_waiting(tx: Transaction, head: Head) -> list[WaitingTool]:
    """The wait set of the active turn, including the calls whose results were applied."""
    rows = tx.all(Q.waiting, **turn_key(head))
    return [WaitingTool.of(row) for row in rows]


def renew(tx: Transaction, owner: str, lease_ms: int = LEASE_MS) -> list[tuple[str, str, str, int]]:
    """Renew the lease of every turn a worker runs: (project, agent, turn, epoch). The revisions stay the same."""
    rows = tx.all(Q.renew, owner=owner, lease_ms=lease_ms)
    return [
        (row["project_id"], row["agent_id"], row["active_agent_turn_id"], row["turn_epoch"]) for row in rows
    ]


def turn_key(head: Head) -> dict[str, Any]:
    """The query parameters that name the active turn and its epoch."""
    return {
        "project": head.project_id,
        "agent": head.agent_id,
        "turn": head.active_agent_turn_id or "",
        "epoch": head.turn_epoch,
    }


def update_head(tx: Transaction, query: Query, head: Head, **values: Any) -> Head:
    """The head after an update that is fenced by turn, epoch and revision; FencedError when it matched no row."""
    (rows,) = tx.each(head_update(query, head, **values))
    return updated(head, rows)


def head_update(query: Query, head: Head, **values: Any) -> Statement:
    """The statement of `update_head`; `updated` is given its rows."""
    return query, {**turn_key(head), "revision": head.revision, **values}


def updated(head: Head, rows: Sequence[Row]) -> Head:
    """The head after its update; FencedError when that matched no row."""
    if not rows:
        raise fenced(head)
    return Head.of(rows[0])


def check_held(tx: Transaction, head: Head) -> None:
    """Lock the head and check that it is as it was read; FencedError when another writer changed it."""
    now = read_head(tx, head.project_id, head.agent_id, lock=True)
    if now is None or now.gate != head.gate or now.status is not head.status:
        raise fenced(head)


def fenced(head: Head) -> FencedError:
    return FencedError(
        f"turn {head.active_agent_turn_id} of {head.agent_id} moved on from epoch {head.turn_epoch}, "
        f"revision {head.revision}, {head.status}; nothing was written"
    )
