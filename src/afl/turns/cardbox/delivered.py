"""What a turn came to, for those who asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from afl.turns.cardbox.cards import Card
from afl.turns.cardbox.delivery import deliverable_text
from afl.turns.statuses import TaskStatus


@dataclass(frozen=True, slots=True)
class Delivered:
    """The end of a turn with its deliverable."""

    agent_turn_id: str
    status: TaskStatus
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    data: Any = None
    error: str | None = None
    error_code: str | None = None
    output_box_id: str = ""
    deliverable_card_id: str = ""

    @property
    def succeeded(self) -> bool:
        return self.status is TaskStatus.SUCCESS

    @classmethod
    def of(cls, told: Mapping[str, Any], card: Card) -> Delivered:
        """From `evt.agent.*.task`, and the card it points to."""
        fields = card.content.get("fields") or ()
        return cls(
            told["agent_turn_id"],
            TaskStatus(told["status"]),
            deliverable_text(card.content),
            {each["name"]: each["value"] for each in fields},
            card.content.get("data"),
            told.get("error"),
            told.get("error_code"),
            told["output_box_id"],
            told["deliverable_card_id"],
        )
