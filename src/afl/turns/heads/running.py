"""A turn at work: it is entered, goes from step to step, and suspends on its tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from afl.kernel.database import Transaction
from afl.kernel.lease import LEASE_MS
from afl.turns.cards import NewCard
from afl.turns.commands import command_message
from afl.turns.context import TurnContext, context_of_head
from afl.turns.edges import edge_row
from afl.turns.errors import ProtocolViolation
from afl.turns.heads.move import Move, make
from afl.turns.intents import ToolWait
from afl.turns.model import Head, Limits
from afl.turns.outbox import out_row
from afl.turns.statuses import EdgePhase, HeadStatus, Primitive
from afl.turns.steps import StepEnd

_RUNNING = (HeadStatus.RUNNING,)


@dataclass(frozen=True, slots=True)
class Suspended:
    """A turn that waits, and how many commands its transaction left in the outbox."""

    head: Head
    stored: int


def enter_running(
    tx: Transaction, head: Head, *, inbox_id: str, owner: str, step_id: str, lease_ms: int = LEASE_MS
) -> Head:
    """dispatched -> running, by the worker that claimed the turn's message; the message is done by that. T3."""
    values = {"owner": owner, "lease_ms": lease_ms}
    move = Move("enter", (HeadStatus.DISPATCHED,), values, open=step_id, consume=inbox_id)
    return make(tx, head, move).head


def note(
    tx: Transaction,
    head: Head,
    *,
    cards: Sequence[NewCard] = (),
    step: StepEnd | None = None,
    lease_ms: int = LEASE_MS,
    limits: Limits | None = None,
) -> Head:
    """running -> running within a step: what was thought or called is on the record before anything else. T4."""
    values = {"steps": 0, "lease_ms": lease_ms}
    return make(tx, head, Move("go_on", _RUNNING, values, cards=cards, close=step), limits).head


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
    move = Move("go_on", _RUNNING, values, cards=cards, close=ended, open=step_id)
    return make(tx, head, move, limits).head


def suspend(
    tx: Transaction,
    head: Head,
    *,
    waits: Sequence[ToolWait],
    cards: Sequence[NewCard] = (),
    ended: StepEnd | None = None,
    limits: Limits | None = None,
) -> Suspended:
    """running -> suspended: cards, edges, wait set and commands in one transaction, before anything is published. T5.

    So no result can arrive that nobody waits for. A tool call id that was used before is a StoreConflict.
    """
    if not waits:
        raise ProtocolViolation(
            f"turn {head.active_agent_turn_id}: a turn suspends on at least one tool call"
        )
    context = context_of_head(head)
    places = [replace(context, step_id=wait.step_id, tool_call_id=wait.tool_call_id) for wait in waits]
    commands = [
        _command(place, wait) for place, wait in zip(places, waits, strict=True) if wait.subject is not None
    ]
    move = Move(
        "suspend",
        _RUNNING,
        {"count": len(waits), "deadline_ms": min(wait.deadline_ms for wait in waits)},
        cards=cards,
        waits=[_wait(wait) for wait in waits],
        edges=[_edge(place, wait) for place, wait in zip(places, waits, strict=True)],
        outbox=commands,
        close=ended,
    )
    return Suspended(make(tx, head, move, limits).head, len(commands))


def _wait(wait: ToolWait) -> dict[str, Any]:
    return {
        "call": wait.tool_call_id,
        "step": wait.step_id,
        "tool": wait.tool_name,
        "deadline_ms": wait.deadline_ms,
    }


def _command(place: TurnContext, wait: ToolWait) -> dict[str, Any]:
    """The message for a tool that another process runs."""
    message = command_message(place, wait.subject or "", wait.payload)
    return out_row(place.project_id, "cmd", message, place.agent_id, place.agent_turn_id)


def _edge(place: TurnContext, wait: ToolWait) -> dict[str, Any]:
    about = {"tool_name": wait.tool_name, "subject": wait.subject}
    return edge_row(place, Primitive.TOOL_CALL, EdgePhase.REQUEST, wait.tool_call_id, metadata=about)
