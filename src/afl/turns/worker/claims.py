"""Claims: due messages are taken from the inbox, and the turns among them are entered in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.kernel.database import Transaction
from afl.turns.model import EnteredTurn, Head, InboxRow
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import HeadStatus, MessageType
from afl.turns.store import inbox
from afl.turns.store.edges import Q as HEADS
from afl.turns.transitions import enter_running
from afl.turns.worker.turn_state import read_boxes

_TURNS = (MessageType.TURN, MessageType.UI_ACTION)


@dataclass(frozen=True, slots=True)
class Claimed:
    """Messages to handle, and turns to run."""

    rows: Sequence[InboxRow]
    turns: Sequence[EnteredTurn]

    def __len__(self) -> int:
        return len(self.rows) + len(self.turns)


def claim(tx: Transaction, *, targets: Sequence[str], owner: str, limit: int, lease_ms: int) -> Claimed:
    """Take at most `limit` due messages, oldest first, and enter the turns among them (T3).

    A turn that is to be stopped is not entered: the stop, which comes first, ends it.
    """
    rows, turns = [], []
    claimed = inbox.claim_due(tx, targets=targets, owner=owner, limit=limit)
    stops = [row for row in claimed if row.message_type is MessageType.STOP]
    stopped = {row.agent_turn_id for row in stops}
    for row in (*stops, *(row for row in claimed if row.message_type is not MessageType.STOP)):
        begins = row.message_type in _TURNS and row.agent_turn_id not in stopped
        head = _unlocked_head(tx, row) if begins else None
        if head is None or not is_dispatched_by(head, row):
            rows.append(row)
            continue
        step = new_id("step")
        running = enter_running(tx, head, inbox_id=row.inbox_id, owner=owner, step_id=step, lease_ms=lease_ms)
        turns.append(EnteredTurn(running, step, read_boxes(tx, running)))
    return Claimed(rows, turns)


def is_dispatched_by(head: Head, row: InboxRow) -> bool:
    """Whether the message is the one with which the agent's turn was dispatched."""
    same = (head.active_agent_turn_id, head.turn_epoch) == (row.agent_turn_id, row.turn_epoch)
    return same and head.status is HeadStatus.DISPATCHED


def _unlocked_head(tx: Transaction, row: InboxRow) -> Head | None:
    """The head, now locked; None when another transaction has locked it.

    To wait for it could deadlock: other transactions lock the head first and the message after it.
    """
    found = tx.one(HEADS.lock_unlocked_head, project=row.project_id, agent=row.agent_id)
    return Head.of(found) if found is not None else None
