"""Transitions of a suspended turn: results are applied one by one in any order of arrival, then it resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.kernel.database import Transaction
from afl.kernel.errors import FencedError
from afl.kernel.lease import LEASE_MS
from afl.turns.cardbox import boxes
from afl.turns.cardbox.cards import NewCard
from afl.turns.model import Head
from afl.turns.statuses import HeadStatus
from afl.turns.store import inbox
from afl.turns.store.edges import Q
from afl.turns.store.heads import check_held, turn_key, update_head
from afl.turns.store.steps import StepEnd
from afl.turns.transitions.transition import TransitionWrites, apply

_SUSPENDED = (HeadStatus.SUSPENDED,)


@dataclass(frozen=True, slots=True)
class Applied:
    """The head after a result, and how many results are still open."""

    head: Head
    remaining: int


def apply_result(
    tx: Transaction, head: Head, *, inbox_id: str | None, tool_call_id: str, tool_result_card_id: str
) -> Applied:
    """suspended -> suspended: a result is applied once; its card is appended to the output box. T6."""
    transition = TransitionWrites(
        Q.count_down,
        _SUSPENDED,
        {"call": tool_call_id},
        saved_cards=[tool_result_card_id],
        consume=inbox_id,
    )
    now = apply(tx, head, transition)
    _mark_applied(tx, head, tool_call_id, tool_result_card_id)
    return Applied(now, now.waiting_tool_count)


def apply_early(
    tx: Transaction, head: Head, *, inbox_id: str | None, tool_call_id: str, tool_result_card_id: str
) -> None:
    """running -> running: applies a result that arrives while the turn still runs. T4.

    The head is locked and not written, so that the worker that runs the turn finds it unchanged.
    """
    if head.status is not HeadStatus.RUNNING:
        raise FencedError(
            f"turn {head.active_agent_turn_id} of {head.agent_id} is {head.status}, not running"
        )
    check_held(tx, head)
    _mark_applied(tx, head, tool_call_id, tool_result_card_id)
    turn, box = head.active_agent_turn_id or "", head.output_box_id or ""
    boxes.append(tx, head.project_id, box, turn, [tool_result_card_id])
    if inbox_id is not None:
        inbox.consume(tx, head.project_id, inbox_id)


def resume(
    tx: Transaction,
    head: Head,
    *,
    owner: str,
    step_id: str | None,
    cards: Sequence[NewCard] = (),
    ended: StepEnd | None = None,
    lease_ms: int = LEASE_MS,
) -> Head:
    """suspended -> running, once nothing is waited for: a new step of the same turn and epoch begins. T7.

    Without a `step_id` the turn goes on within the step in which it suspended: calls of it that were approved are made.
    """
    values = {"owner": owner, "lease_ms": lease_ms, "steps": int(step_id is not None)}
    transition = TransitionWrites(
        Q.resume, _SUSPENDED, values, cards=cards, close_step=ended, open_step=step_id
    )
    return apply(tx, head, transition)


def extend_wait(tx: Transaction, head: Head, *, tool_call_id: str, deadline_ms: int) -> Head:
    """suspended -> suspended: a tool began its work, so its deadline counts from now. T6."""
    tx.run(Q.extend_wait, **turn_key(head), call=tool_call_id, deadline_ms=deadline_ms)
    return update_head(tx, Q.move_deadline, head)


def record_timeouts(tx: Transaction, head: Head) -> Head:
    """suspended -> suspended: the deadline becomes that of the calls that have not expired, if any. T6."""
    return update_head(tx, Q.move_deadline, head)


def _mark_applied(tx: Transaction, head: Head, tool_call_id: str, card_id: str) -> None:
    if not tx.run(Q.mark_applied, **turn_key(head), call=tool_call_id, card=card_id):
        raise FencedError(f"turn {head.active_agent_turn_id} does not wait for {tool_call_id}")
