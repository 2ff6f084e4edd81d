"""How a turn ends, and how that is told: once, with a deliverable of its own in its output box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.turns.bus.outbox import out_row
from afl.turns.cardbox.cards import NewCard, json_data
from afl.turns.message import Message
from afl.turns.protocol import headers as names
from afl.turns.protocol.events import action_ack, task_event
from afl.turns.statuses import ActionStatus, TaskStatus
from afl.turns.store.steps import StepEnd

SYSTEM_AUTHOR = "sys.l0"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ends. The deliverable is a card of this turn; `cards` go to the output box before it."""

    status: TaskStatus
    deliverable: NewCard
    cards: Sequence[NewCard] = ()
    error: str | None = None
    error_code: str | None = None
    tool_result_card_id: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    step: StepEnd | None = None
    inbox_id: str | None = None  # the message that led here, done by this


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Which turn it is that ends, and where its output stands."""

    project_id: str
    channel_id: str
    agent_id: str
    agent_turn_id: str
    turn_epoch: int
    output_box_id: str
    context_headers: Mapping[str, str]


def task_row(place: TurnPlace, ending: Ending) -> dict[str, Any]:
    """`evt.agent.*.task` for the outbox; the schema refuses it unless the deliverable is in the output box."""
    card = ending.deliverable.card_id
    message = task_event(
        dict(place.context_headers) | _identity(place),
        turn_id=place.agent_turn_id,
        status=ending.status,
        output_box_id=place.output_box_id,
        deliverable_card_id=card,
        tool_result_card_id=ending.tool_result_card_id,
        error=ending.error,
        error_code=ending.error_code,
        stats=ending.stats,
    )
    row = out_row(place.project_id, "task", message, place.agent_id, place.agent_turn_id)
    return row | {"status": str(ending.status), "box": place.output_box_id, "card": card}


def action_end_event(place: TurnPlace, action_id: str, ending: Ending) -> Message:
    """What is told to the person whose action a turn was."""
    return action_ack(
        dict(place.context_headers) | _identity(place),
        action_id=action_id,
        agent_id=place.agent_id,
        status=ActionStatus.DONE if ending.status is TaskStatus.SUCCESS else ActionStatus.ERROR,
        tool_result_card_id=ending.tool_result_card_id,
        error_code=ending.error_code,
        error=ending.error,
    )


def _identity(place: TurnPlace) -> dict[str, str]:
    return {
        names.PROJECT: place.project_id,
        names.CHANNEL: place.channel_id,
        names.AGENT: place.agent_id,
        names.TURN: place.agent_turn_id,
        names.EPOCH: str(place.turn_epoch),
    }


def fallback_content(
    status: TaskStatus, message: str, source: str, diagnostics: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The content of such a deliverable."""
    partial = status is not TaskStatus.SUCCESS
    return json_data(
        {
            "schema_version": 1,
            "kind": "fallback_deliverable",
            "status": "partial" if partial else "success",
            "partial": partial,
            "message": message,
            "fields": [{"name": "summary", "value": message}, {"name": "reason", "value": str(source)}],
            "diagnostics": {"source": str(source), "partial": partial} | dict(diagnostics or {}),
        }
    )
