"""The end of a turn: a deliverable of its own in the output box, one `evt.task`, an idle agent, the next turn.

All of it is one transaction, on every path: done, failed, stopped, timed out.
"""

from __future__ import annotations

from afl.kernel.database import Transaction
from afl.turns.cardbox.cards import NewCard, json_data
from afl.turns.cardbox.deliverable import (
    SYSTEM_AUTHOR,
    Ending,
    TurnPlace,
    action_end_event,
    fallback_content,
    task_row,
)
from afl.turns.errors import CardError, ErrorCode
from afl.turns.message import Message
from afl.turns.model import EndedTurn, Head, L0Result, Limits, accepted
from afl.turns.primitives.dispatch_next import dispatch, oldest_queued
from afl.turns.statuses import CardType, HeadStatus, TaskStatus
from afl.turns.store import inbox
from afl.turns.store.edges import Q
from afl.turns.store.steps import StepEnd, close_open_steps
from afl.turns.tracing import turn_ended
from afl.turns.transitions.transition import TransitionWrites, apply_and_read

_ACTIVE = (HeadStatus.DISPATCHED, HeadStatus.RUNNING, HeadStatus.SUSPENDED)


def finish(tx: Transaction, head: Head, ending: Ending, limits: Limits | None = None) -> L0Result:
    """running or suspended -> idle. T8, T9, T13."""
    return _end(tx, head, ending, bump=0, limits=limits)


def stop_turn(tx: Transaction, head: Head, *, reason: str, inbox_id: str | None = None) -> L0Result:
    """dispatched, running or suspended -> idle with epoch + 1, which fences the worker that runs it. T10."""
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
    step: StepEnd | None = None,
) -> L0Result:
    """dispatched, running or suspended -> idle with epoch + 1, when no worker can go on with it. T11, T12, T13."""
    ending = Ending(
        status,
        fallback_deliverable(head, status, error, error_code),
        error=error,
        error_code=error_code,
        inbox_id=inbox_id,
        step=step,
    )
    return _end(tx, head, ending, bump=1)


def fallback_deliverable(head: Head, status: TaskStatus, message: str, source: str) -> NewCard:
    """The deliverable of a turn that could not deliver by itself."""
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
    place = _place(head, head.turn_epoch + bump)
    transition = TransitionWrites(
        Q.end_turn,
        _ACTIVE,
        {"bump": bump},
        cards=[*ending.cards, card],
        closes_box=True,
        outbox=[task_row(place, ending)],
        close_step=ending.step,
        consume=ending.inbox_id,
    )
    queue = oldest_queued(head.project_id, head.agent_id)
    idle, (queued,) = apply_and_read(tx, head, transition, [queue], limits)
    _clean_up(tx, head, ending, error, ended_by_worker=not bump)
    following = dispatch(tx, queued)
    payload = {
        "agent_turn_id": head.active_agent_turn_id,
        "turn_epoch": idle.turn_epoch,
        "revision": idle.revision,
        "output_box_id": head.output_box_id,
        "deliverable_card_id": card.card_id,
        "head": idle,
        "dispatched": following.payload.get("dispatched"),
    }
    return accepted(
        payload,
        signals=(*_acknowledgment(head, place, ending), *following.signals),
        stored=1,
        ended=EndedTurn(head, idle, ending.error, turn_ended(head, str(ending.status), ending.error)),
    )


def _clean_up(tx: Transaction, head: Head, ending: Ending, error: str, *, ended_by_worker: bool) -> None:
    """The wait set, steps and messages that the turn leaves."""
    project, turn = head.project_id, head.active_agent_turn_id or ""
    tx.queue(Q.forget_waits, project=project, agent=head.agent_id, turn=turn)
    tx.queue(Q.point_to_output, project=project, agent=head.agent_id, box=head.output_box_id)
    if not ended_by_worker:
        close_open_steps(tx, project, turn, error)
    unread = head.active_inbox_id
    if head.status is HeadStatus.DISPATCHED and unread is not None and unread != ending.inbox_id:
        inbox.skip(tx, project, unread, f"its turn ended: {error}")


def _acknowledgment(head: Head, place: TurnPlace, ending: Ending) -> tuple[Message, ...]:
    """The event for the person whose action the turn was."""
    if head.context_box_id is not None or head.expecting_correlation_id is None:
        return ()
    return (action_end_event(place, head.expecting_correlation_id, ending),)


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
