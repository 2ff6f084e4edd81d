"""Claims: due messages are taken, and the turns among them entered, in one statement on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.kernel.codec import decode
from afl.kernel.database import Transaction
from afl.turns.model import Begun, Head, InboxRow
from afl.turns.primitives.sources import Q as CALLS
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import HeadStatus, MessageType
from afl.turns.store import heads, inbox
from afl.turns.worker.scene import read_rows

_TURNS = (MessageType.TURN, MessageType.UI_ACTION)


@dataclass(frozen=True, slots=True)
class Claimed:
    """Messages that are still to be handled, and turns that are to be run."""

    rows: Sequence[InboxRow]
    turns: Sequence[Begun]

    def __len__(self) -> int:
        return len(self.rows) + len(self.turns)


def begin(tx: Transaction, *, targets: Sequence[str], owner: str, limit: int, lease_ms: int) -> Claimed:
    """Take due messages, oldest first, at most so many. T3 for each turn among them."""
    if tx.dialect != "postgres":
        return _begin(tx, inbox.claim_due(tx, targets=targets, owner=owner, limit=limit), owner, lease_ms)
    row = tx.one(
        CALLS.begin,
        targets=list(targets),
        owner=owner,
        limit=limit,
        lease_ms=lease_ms,
        step=new_id("step"),
    )
    assert row is not None
    found = decode(row["begun"])
    return Claimed(
        [InboxRow.of(each["row"]) for each in found if "row" in each],
        [Begun(Head.of(each["head"]), each["step"], each["cards"] or ()) for each in found if "head" in each],
    )


def _begin(tx: Transaction, claimed: Sequence[InboxRow], owner: str, lease_ms: int) -> Claimed:
    rows, turns = [], []
    for row in claimed:
        head = heads.read_head(tx, row.project_id, row.agent_id) if row.message_type in _TURNS else None
        if head is None or not is_to_begin(head, row):
            rows.append(row)
            continue
        step = new_id("step")
        running = heads.enter_running(
            tx, head, inbox_id=row.inbox_id, owner=owner, step_id=step, lease_ms=lease_ms
        )
        turns.append(Begun(running, step, read_rows(tx, running)))
    return Claimed(rows, turns)


def is_to_begin(head: Head, row: InboxRow) -> bool:
    """Whether a message is the one that its agent's turn waits for."""
    same = (head.active_agent_turn_id, head.turn_epoch) == (row.agent_turn_id, row.turn_epoch)
    return same and head.status is HeadStatus.DISPATCHED
