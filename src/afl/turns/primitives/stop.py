"""stop: a queued turn ends at once, an active one when a worker handles the message."""

from __future__ import annotations

from afl.kernel.database import Transaction
from afl.turns.context import TurnContext, context_of_head
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.intents import AddressIntent
from afl.turns.model import Head, InboxRow, L0Result, accepted, rejected
from afl.turns.primitives.cancel import cancel
from afl.turns.primitives.sources import check_project, check_source
from afl.turns.protocol.events import wakeup_message
from afl.turns.protocol.headers import without_identity
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.payloads import check_stop
from afl.turns.statuses import InboxStatus, MessageType, WakeupReason
from afl.turns.store import inbox
from afl.turns.store.heads import read_head


def stop(tx: Transaction, context: TurnContext, intent: AddressIntent) -> L0Result:
    """Ask a turn to end: it will be `canceled` with error code `stopped`. Asked twice is asked once."""
    turn = intent.turn
    try:
        if intent.message_type is not MessageType.STOP:
            raise ProtocolViolation(
                f"{intent.message_type} cannot be sent to a turn that exists; expected stop"
            )
        check_project(context, turn.project_id)
        payload = check_stop(
            without_identity(intent.payload, _known(intent), f"stop of {turn.agent_turn_id}")
        )
        check_source(tx, context)
    except ProtocolViolation as violation:
        return rejected(violation.code, str(violation))
    head = read_head(tx, turn.project_id, turn.agent_id, lock=True)
    message = inbox.turn_row(tx, turn.project_id, turn.agent_turn_id)
    if message is None or message.agent_id != turn.agent_id:
        return rejected(ErrorCode.UNKNOWN_TURN, f"{turn.agent_id} has no turn {turn.agent_turn_id}")
    if message.status is InboxStatus.QUEUED:
        return cancel(tx, context, turn, payload.get("reason") or "stopped before it started")
    if head is None or head.active_agent_turn_id != turn.agent_turn_id:
        return accepted({"agent_turn_id": turn.agent_turn_id, "late": True})
    if turn.expected_epoch is not None and turn.expected_epoch > head.turn_epoch:
        return rejected(ErrorCode.STALE_TURN, f"turn {turn.agent_turn_id} is at epoch {head.turn_epoch}")
    return _send(tx, head, message, payload)


def _send(tx: Transaction, head: Head, message: InboxRow, payload: dict[str, object]) -> L0Result:
    context = context_of_head(head)
    inbox_id = new_id("inbox")
    row = inbox.message_row(
        project_id=head.project_id,
        inbox_id=inbox_id,
        agent_id=head.agent_id,
        worker_target=message.worker_target,
        channel_id=context.channel_id,
        message_type=MessageType.STOP,
        agent_turn_id=context.agent_turn_id,
        turn_epoch=head.turn_epoch,
        headers=context.headers(),
        payload=payload,
        status=InboxStatus.PENDING,
        correlation_id=context.agent_turn_id,
    )
    if not inbox.put(tx, row):
        return accepted({"agent_turn_id": context.agent_turn_id, "duplicate": True})
    notify = wakeup_message(context, message.worker_target, head.agent_id, WakeupReason.STOP, inbox_id)
    return accepted({"agent_turn_id": context.agent_turn_id, "inbox_id": inbox_id}, signals=(notify,))


def _known(intent: AddressIntent) -> dict[str, str]:
    """What a payload may repeat of the address."""
    turn = intent.turn
    known = TurnContext(
        turn.project_id, "public", turn.agent_id, turn.agent_turn_id, turn.expected_epoch or 0
    )
    return known.headers(topology=False)
