"""cancel: a queued turn is withdrawn; it too ends with a deliverable and one `evt.task`."""

from __future__ import annotations

from afl.kernel.database import Transaction
from afl.turns.bus import outbox
from afl.turns.cardbox.boxes import acquire, append
from afl.turns.cardbox.card_store import save_cards
from afl.turns.cardbox.cards import NewCard
from afl.turns.cardbox.deliverable import SYSTEM_AUTHOR, Ending, TurnPlace, fallback_content, task_row
from afl.turns.context import TurnContext
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.model import InboxRow, L0Result, TurnRef, accepted, rejected
from afl.turns.primitives.sources import check_project, check_source
from afl.turns.statuses import CardType, InboxStatus, TaskStatus
from afl.turns.store import inbox
from afl.turns.store.heads import read_head


def cancel(tx: Transaction, context: TurnContext, turn: TurnRef, reason: str = "canceled") -> L0Result:
    """Withdraw a queued turn. One that has begun is not canceled but stopped."""
    try:
        check_project(context, turn.project_id)
        check_source(tx, context)
    except ProtocolViolation as violation:
        return rejected(violation.code, str(violation))
    read_head(
        tx, turn.project_id, turn.agent_id, lock=True
    )  # before the queue: so nobody leases it meanwhile
    message = inbox.turn_row(tx, turn.project_id, turn.agent_turn_id)
    if message is None or message.agent_id != turn.agent_id:
        return rejected(ErrorCode.UNKNOWN_TURN, f"{turn.agent_id} has no turn {turn.agent_turn_id}")
    if message.status is InboxStatus.SKIPPED:
        return accepted({"agent_turn_id": turn.agent_turn_id, "duplicate": True})
    if message.status is not InboxStatus.QUEUED:
        return rejected(ErrorCode.STALE_TURN, f"turn {turn.agent_turn_id} has started; stop it instead")
    return _withdraw(tx, message, reason)


def _withdraw(tx: Transaction, message: InboxRow, reason: str) -> L0Result:
    project, turn = message.project_id, message.agent_turn_id
    inbox.skip(tx, project, message.inbox_id, reason)
    card = NewCard(
        CardType.TASK_DELIVERABLE,
        fallback_content(TaskStatus.CANCELED, reason, ErrorCode.STOPPED),
        SYSTEM_AUTHOR,
        agent_turn_id=turn,
    )
    save_cards(tx, project, [card])
    box = acquire(tx, project, message.payload["output_box_id"], turn)
    append(tx, project, box, turn, [card.card_id], last=True)
    place = TurnPlace(project, message.channel_id, message.agent_id, turn, 0, box, message.context_headers)
    ending = Ending(TaskStatus.CANCELED, card, error=reason, error_code=ErrorCode.STOPPED)
    tx.run(outbox.Q.store, **task_row(place, ending))
    return accepted(
        {"agent_turn_id": turn, "deliverable_card_id": card.card_id, "output_box_id": box}, stored=1
    )
