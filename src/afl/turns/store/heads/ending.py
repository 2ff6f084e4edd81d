"""The end of a turn: a deliverable of its own in the output box, one `evt.task`, an idle agent, the next turn.

All of it is one transaction, on every path: done, failed, stopped, timed out.
"""

from __future__ import annotations

from afl.kernel.database import Transaction
from afl.turns.cardbox.cards import NewCard, json_data
from afl.turns.cardbox.delivering import (
    SYSTEM_AUTHOR,
    Ending,
    TurnPlace,
    action_end_event,
    fallback_content,
    task_row,
)
from afl.turns.errors import CardError, ErrorCode
from afl.turns.message import Message
from afl.turns.model import Head, L0Result, Limits, Over, accepted
from afl.turns.statuses import CardType, HeadStatus, TaskStatus
from afl.turns.store.heads.move import Move, make
from afl.turns.store.steps import StepEnd
from afl.turns.worker.tracing import turn_ended

_ACTIVE = (HeadStatus.DISPATCHED, HeadStatus.RUNNING, HeadStatus.SUSPENDED)


def finish(tx: Transaction, head: Head, ending: Ending, limits: Limits | None = None) -> L0Result:
    """running or suspended -> idle. T8, T9, T13."""
    return _end(tx, head, ending, bump=0, limits=limits)


def stop_turn(
    tx: Transaction, head: Head, *, reason: str, inbox_id: str | None = None, step: StepEnd | None = None
) -> L0Result:
    """dispatched, running or suspended -> idle with epoch + 1: whoever runs it misses from now on. T10."""
    error = NewCard(
        CardType.AGENT_ERROR,
        json_data({"code": ErrorCode.STOPPED.value, "message": reason}),
        SYSTEM_AUTHOR,
        agent_turn_id=head.active_agent_turn_id or "",
    )
    ending = Ending(
        TaskStatus.CANCELED,
        fallback_deliverable(head, TaskStatus.CANCELED, reason, ErrorCode.STOPPED),
        cards=(error,),
        error=reason,
        error_code=ErrorCode.STOPPED,
        inbox_id=inbox_id,
        step=step,
    )
    return _end(tx, head, ending, bump=1)


def fail_turn(
    tx: Transaction,
    head: Head,
    *,
    error: str,
    error_code: str,
    status: TaskStatus = TaskStatus.FAILED,
    inbox_id: str | None = None,
    tool_result_card_id: str | None = None,
    step: StepEnd | None = None,
) -> L0Result:
    """dispatched, running or suspended -> idle with epoch + 1, when no worker can go on with it. T11, T12, T13."""
    ending = Ending(
        status,
        fallback_deliverable(head, status, error, error_code),
        error=error,
        error_code=error_code,
        inbox_id=inbox_id,
        tool_result_card_id=tool_result_card_id,
        step=step,
    )
    return _end(tx, head, ending, bump=1)


def fallback_deliverable(head: Head, status: TaskStatus, message: str, source: str) -> NewCard:
    """What a turn delivers that could not deliver by itself."""
    return NewCard(
        CardType.TASK_DELIVERABLE,
        fallback_content(status, message, source),
        SYSTEM_AUTHOR,
        agent_turn_id=head.active_agent_turn_id or "",
    )


def _end(tx: Transaction, head: Head, ending: Ending, *, bump: int, limits: Limits | None = None) -> L0Result:
    card, error = ending.deliverable, ending.error or str(ending.status)
    if card.type != CardType.TASK_DELIVERABLE:
        raise CardError(f"card {card.card_id}: a turn ends with a task.deliverable")
    epoch, unread = head.turn_epoch + bump, head.active_inbox_id
    move = Move(
        "end_turn",
        _ACTIVE,
        {"bump": bump},
        cards=[*ending.cards, card],
        outbox=[task_row(_place(head, epoch), ending)],
        close=ending.step,
        steps_error=error if bump else None,
        consume=ending.inbox_id,
        # A turn that never ran leaves a message that nobody must enter any more.
        skip=unread if head.status is HeadStatus.DISPATCHED and unread != ending.inbox_id else None,
        why=f"its turn ended: {error}",
        forget=not _is_plain(head, ending, bump),
    )
    moved = make(tx, head, move, limits)
    following = moved.following
    payload = {
        "agent_turn_id": head.active_agent_turn_id,
        "turn_epoch": moved.head.turn_epoch,
        "revision": moved.head.revision,
        "output_box_id": head.output_box_id,
        "deliverable_card_id": card.card_id,
        "head": moved.head,
        "dispatched": following.payload.get("dispatched") if following is not None else None,
    }
    signals = following.signals if following is not None else ()
    return accepted(
        payload,
        signals=(*_acknowledged(head, epoch, ending), *signals),
        stored=1,
        left=moved.left,
        ended=turn_ended(head, str(ending.status), ending.error),
        over=Over(head, moved.head, ending.error),
    )


def _acknowledged(head: Head, epoch: int, ending: Ending) -> tuple[Message, ...]:
    """A person who called a tool is told what came of it."""
    if head.context_box_id is not None or head.expecting_correlation_id is None:
        return ()
    return (action_end_event(_place(head, epoch), head.expecting_correlation_id, ending),)


def _is_plain(head: Head, ending: Ending, bump: int) -> bool:
    """A turn of one step that called nothing has no wait set to forget."""
    called = ending.step is None or ending.step.tool_call_ids or ending.tool_result_card_id
    return not called and not bump and head.steps == 1 and head.status is HeadStatus.RUNNING


def _place(head: Head, epoch: int) -> TurnPlace:
    return TurnPlace(
        head.project_id,
        head.active_channel_id or "",
        head.agent_id,
        head.active_agent_turn_id or "",
        epoch,
        head.output_box_id or "",
        head.context_headers,
    )
