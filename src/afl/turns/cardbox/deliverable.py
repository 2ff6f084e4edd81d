"""The deliverable of a turn: its content, how the end of the turn is published, and what the requester receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.models.messages import CUT_OFF
from afl.models.result_type import result_type
from afl.turns.bus.outbox import out_row
from afl.turns.cardbox import cards
from afl.turns.cardbox.cards import Card, NewCard
from afl.turns.errors import TurnFailed
from afl.turns.message import Message
from afl.turns.protocol import headers as names
from afl.turns.protocol.events import action_ack, task_event
from afl.turns.statuses import ActionStatus, TaskStatus
from afl.turns.store.steps import StepEnd

T = TypeVar("T")
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
    inbox_id: str | None = None  # the message that ends the turn; it is consumed


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """The identity of a turn that ends, and its output box."""

    project_id: str
    channel_id: str
    agent_id: str
    agent_turn_id: str
    turn_epoch: int
    output_box_id: str
    context_headers: Mapping[str, str]

    @property
    def headers(self) -> dict[str, str]:
        return {
            **self.context_headers,
            names.PROJECT: self.project_id,
            names.CHANNEL: self.channel_id,
            names.AGENT: self.agent_id,
            names.TURN: self.agent_turn_id,
            names.EPOCH: str(self.turn_epoch),
        }


@dataclass(frozen=True, slots=True)
class Delivered:
    """The end of a turn with its deliverable. `cut_off`: the last reply of its model is not complete."""

    agent_turn_id: str
    status: TaskStatus
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    data: Any = None
    error: str | None = None
    error_code: str | None = None
    output_box_id: str = ""
    deliverable_card_id: str = ""
    cut_off: bool = False

    @property
    def succeeded(self) -> bool:
        return self.status is TaskStatus.SUCCESS

    def value(self, result: type[T]) -> T:
        """The result as a value of its type. TurnFailed if the turn did not deliver one."""
        if not self.succeeded:
            raise TurnFailed(
                f"turn {self.agent_turn_id} {self.status}: {self.error or self.text}", self.error_code
            )
        try:
            found: T = result_type(result).value(self.data)
        except InputError as error:
            why = f"turn {self.agent_turn_id} delivered no {getattr(result, '__name__', result)}: {error}"
            raise TurnFailed(why, "invalid_result") from error
        return found

    @classmethod
    def of(cls, event: Mapping[str, Any], card: Card) -> Delivered:
        """From the payload of `evt.agent.*.task`, and the card it points to."""
        fields = card.content.get("fields") or ()
        return cls(
            event["agent_turn_id"],
            TaskStatus(event["status"]),
            deliverable_text(card.content),
            {each["name"]: each["value"] for each in fields},
            card.content.get("data"),
            event.get("error"),
            event.get("error_code"),
            event["output_box_id"],
            event["deliverable_card_id"],
            (event.get("stats") or {}).get("stop_reason") in CUT_OFF,
        )


def task_row(place: TurnPlace, ending: Ending) -> dict[str, Any]:
    """The outbox row of `evt.agent.*.task`; the schema refuses it unless the deliverable is in the output box."""
    card = ending.deliverable.card_id
    message = task_event(
        place.headers,
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
    """The event for the person whose action the turn was."""
    return action_ack(
        place.headers,
        action_id=action_id,
        agent_id=place.agent_id,
        status=ActionStatus.DONE if ending.status is TaskStatus.SUCCESS else ActionStatus.ERROR,
        tool_result_card_id=ending.tool_result_card_id,
        error_code=ending.error_code,
        error=ending.error,
    )


def fallback_content(
    status: TaskStatus, message: str, source: str, diagnostics: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The deliverable of a turn that could not deliver by itself."""
    partial = status is not TaskStatus.SUCCESS
    return cards.json_data(
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


def answer_content(text: str) -> dict[str, Any]:
    """The deliverable of a turn that ended with text."""
    return cards.text(text)


def fields_content(fields: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The deliverable of a turn that ended with submit_result."""
    return cards.fields_schema([dict(each) for each in fields])


def typed_content(data: Any) -> dict[str, Any]:
    """The deliverable of a turn whose result has a type; for whoever reads fields, those of an object as text."""
    content = cards.json_data(data)
    if isinstance(data, Mapping):
        texts = {
            name: value if isinstance(value, str) else codec.encode(value) for name, value in data.items()
        }
        content["fields"] = [{"name": name, "value": text} for name, text in texts.items()]
    return content


def deliverable_text(content: Mapping[str, Any]) -> str:
    """A deliverable as one text."""
    if "text" in content:
        return str(content["text"])
    data = content.get("data")
    if "fields" not in content:
        message = data.get("message") if isinstance(data, Mapping) else None
        return str(message) if message is not None else data if isinstance(data, str) else codec.encode(data)
    fields = content["fields"]
    if len(fields) == 1:
        return str(fields[0].get("value", ""))
    return "\n".join(f"{each.get('name')}: {each.get('value')}" for each in fields)
