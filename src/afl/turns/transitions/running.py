"""Transitions of a running turn: it is entered, goes from step to step, and suspends on its tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from afl.kernel.database import Transaction
from afl.kernel.lease import LEASE_MS
from afl.turns.bus.outbox import out_row
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import TurnContext, context_of_head
from afl.turns.errors import ProtocolViolation
from afl.turns.intents import ToolWait
from afl.turns.model import Head, Limits
from afl.turns.protocol.events import command_message
from afl.turns.statuses import EdgePhase, HeadStatus, Primitive
from afl.turns.store.edges import Q, edge_row
from afl.turns.store.heads import update_head
from afl.turns.store.steps import StepEnd
from afl.turns.transitions.transition import TransitionWrites, apply

_RUNNING = (HeadStatus.RUNNING,)


@dataclass(frozen=True, slots=True)
class Suspended:
    """The head of a suspended turn, and how many commands its transaction wrote to the outbox."""

    head: Head
    stored: int


def enter_running(
    tx: Transaction, head: Head, *, inbox_id: str, owner: str, step_id: str, lease_ms: int = LEASE_MS
) -> Head:
    """dispatched -> running, by the worker that claimed the turn's message, which is consumed. T3.

    ProtocolViolation: the message is not the one that L0 dispatched the turn with.
    """
    if inbox_id != head.active_inbox_id:
        raise ProtocolViolation(
            f"turn {head.active_agent_turn_id} of {head.agent_id} cannot be entered with the message {inbox_id!r}; "
            f"it was dispatched with {head.active_inbox_id!r}"
        )
    values = {"owner": owner, "lease_ms": lease_ms}
    return apply(
        tx,
        head,
        TransitionWrites(Q.enter, (HeadStatus.DISPATCHED,), values, open_step=step_id, consume=inbox_id),
    )


def note(
    tx: Transaction,
    head: Head,
    *,
    cards: Sequence[NewCard] = (),
    step: StepEnd | None = None,
    waits: Sequence[ToolWait] = (),
    lease_ms: int = LEASE_MS,
    limits: Limits | None = None,
) -> Head:
    """running -> running within a step: stores what the model said and called before anything else happens. T4.

    `waits` are calls that other processes answer while the turn runs on. Their commands are sent, and results that
    arrive meanwhile are applied (`apply_early`). The turn suspends later on those that are still open.
    """
    values = {"steps": 0, "lease_ms": lease_ms}
    transition = TransitionWrites(Q.go_on, _RUNNING, values, cards=cards, close_step=step)
    return apply(tx, head, _with_calls(head, waits, transition), limits)


def next_step(
    tx: Transaction,
    head: Head,
    *,
    step_id: str,
    cards: Sequence[NewCard] = (),
    ended: StepEnd | None = None,
    lease_ms: int = LEASE_MS,
    limits: Limits | None = None,
) -> Head:
    """running -> running: one step ends and another begins. T4."""
    values = {"steps": 1, "lease_ms": lease_ms}
    transition = TransitionWrites(Q.go_on, _RUNNING, values, cards=cards, close_step=ended, open_step=step_id)
    return apply(tx, head, transition, limits)


def suspend(
    tx: Transaction,
    head: Head,
    *,
    waits: Sequence[ToolWait] = (),
    sent_before: int = 0,
    cards: Sequence[NewCard] = (),
    ended: StepEnd | None = None,
    limits: Limits | None = None,
) -> Suspended:
    """running -> suspended: cards, edges, wait set and commands in one transaction, before anything is published. T5.

    So no result can arrive that nobody waits for. A tool call id that was used before is a StoreConflict.
    `sent_before`: how many calls that were sent while the turn ran (`note`) have not been answered.
    """
    if not waits and not sent_before:
        raise ProtocolViolation(
            f"turn {head.active_agent_turn_id}: a turn suspends on at least one tool call"
        )
    values = {
        "count": len(waits) + sent_before,
        "deadline_ms": min((wait.deadline_ms for wait in waits), default=0),
    }
    transition = TransitionWrites(Q.suspend, _RUNNING, values, cards=cards, close_step=ended)
    transition = _with_calls(head, waits, transition)
    now = apply(tx, head, transition, limits)
    if sent_before:
        now = update_head(tx, Q.move_deadline, now)
    return Suspended(now, len(transition.outbox))


def _with_calls(head: Head, waits: Sequence[ToolWait], transition: TransitionWrites) -> TransitionWrites:
    """The transition with the wait set, edges and commands of calls that other processes answer."""
    if not waits:
        return transition
    context = context_of_head(head)
    contexts = [replace(context, step_id=wait.step_id, tool_call_id=wait.tool_call_id) for wait in waits]
    pairs = list(zip(contexts, waits, strict=True))
    return replace(
        transition,
        waits=[_wait(wait) for wait in waits],
        edges=[_edge(place, wait) for place, wait in pairs],
        outbox=[_command(place, wait) for place, wait in pairs if wait.subject is not None],
    )


def _wait(wait: ToolWait) -> dict[str, Any]:
    return {
        "call": wait.tool_call_id,
        "step": wait.step_id,
        "tool": wait.tool_name,
        "deadline_ms": wait.deadline_ms,
    }


def _command(context: TurnContext, wait: ToolWait) -> dict[str, Any]:
    message = command_message(context, wait.subject or "", wait.payload)
    return out_row(context.project_id, "cmd", message, context.agent_id, context.agent_turn_id)


def _edge(context: TurnContext, wait: ToolWait) -> dict[str, Any]:
    about = {"tool_name": wait.tool_name, "subject": wait.subject}
    return edge_row(context, Primitive.TOOL_CALL, EdgePhase.REQUEST, wait.tool_call_id, metadata=about)
