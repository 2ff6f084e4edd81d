"""What happens in a turn, as a stream that is read by position: its steps, text, calls, results and end.

All of it comes from the store: the steps and the cards of the turn, and the text of the step under way, which workers
store a few times a second while the model speaks (`store/live_text.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import msgspec

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError, NotFoundError
from afl.turns.cardbox.boxes import read_box
from afl.turns.cardbox.cards import Card
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.model import Head
from afl.turns.statuses import CardType, StepStatus, TaskStatus
from afl.turns.store.approvals import approvals_of_turn
from afl.turns.store.live_text import text_of_step
from afl.turns.store.steps import Step
from afl.turns.store.turn_queries import TurnRow, turn_in_detail
from afl.turns.tools.approved import approval_of

_PARTS = 4


class EventKind(StrEnum):
    """What happened."""

    STEP = "step"  # a step began
    TEXT = "text"  # the next piece of what the model says
    THINKING = "thinking"  # what it thought before that, where its provider tells
    MESSAGE = "message"  # all that it said in the step
    TOOL_CALL = "tool-call"
    TOOL_RESULT = "tool-result"
    APPROVAL_NEEDED = "approval-needed"
    RESULT = "result"  # the turn succeeded
    FAILED = "failed"  # it ended in any other way


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One thing that happened in a turn, at a time of the store's clock (ms); `position` is where to read on after it.

    `step` counts from 1. `text` is a piece of text (text), the whole text (message, thinking, result) or an error
    (tool-result, failed). `tool` and `call` are of tool-call and tool-result; `data` are the arguments of a call, the
    result of a tool or the value of a result. `status` is success, failed, canceled, timeout or partial; `cut_off` that
    the last reply of the model reached max_tokens.
    """

    position: str
    kind: str
    time: int
    turn: str
    agent: str
    step: int = 0
    text: str = ""
    tool: str = ""
    call: str = ""
    data: Any = None
    status: str = ""
    error_code: str = ""
    cut_off: bool = False

    @property
    def ends_turn(self) -> bool:
        """Whether the turn is over by it."""
        return self.kind in (EventKind.RESULT, EventKind.FAILED)

    def as_sse(self) -> str:
        """The event as one of a `text/event-stream`: a browser that reconnects sends its id, the position."""
        return f"id: {self.position}\nevent: {self.kind}\ndata: {msgspec.json.encode(self).decode()}\n\n"


@dataclass(frozen=True, slots=True)
class AgentEventPage:
    """Events in their order; `position` is where to read on, `over` that nothing more will come."""

    events: list[AgentEvent]
    position: str
    over: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there."""
        return not self.events


@dataclass(frozen=True, slots=True)
class EventPosition:
    """How far a reader is: `cards` cards of the output box and `done` events of the next one, `steps` steps, and
    `said` characters of the last of these steps."""

    cards: int = 0
    done: int = 0
    steps: int = 0
    said: int = 0

    @classmethod
    def of(cls, text: str) -> EventPosition:
        """From the position of an event; empty: the beginning. InputError for a text that is none."""
        if not text:
            return cls()
        parts = text.split(".")
        if len(parts) != _PARTS or not all(part.isascii() and part.isdecimal() for part in parts):
            raise InputError(f"{text[:80]!r} is not the position of an event; pass the position of one")
        return cls(*map(int, parts))

    def __str__(self) -> str:
        return f"{self.cards}.{self.done}.{self.steps}.{self.said}"


def read_turn_page(
    tx: Transaction, project_id: str, turn_id: str, after: EventPosition, limit: int
) -> AgentEventPage:
    """The events of a turn after a position, in a transaction that sees one moment of the store."""
    found = turn_in_detail(tx, project_id, turn_id)
    if found is None:
        raise NotFoundError(f"project {project_id} has no turn {turn_id!r}")
    row, head, steps = found
    steps.sort(key=lambda step: (step.number, step.turn_epoch))  # a lost one, and its successor
    reader = _Reader(tx, project_id, row, head, steps, after)
    events: list[AgentEvent] = []
    for event in reader.events():
        events.append(event)
        if len(events) >= limit:
            return AgentEventPage(events, event.position, False)
    return AgentEventPage(events, str(reader.place), row.is_over)


@dataclass
class _Reader:
    """Reads one turn; `place` moves on with every event."""

    tx: Transaction
    project: str
    row: TurnRow
    head: Head | None
    steps: Sequence[Step]
    place: EventPosition
    numbers: Mapping[str, int] = field(default_factory=dict)  # step -> its place among the steps
    asked: frozenset[str] | None = None

    def events(self) -> Iterator[AgentEvent]:
        box = (self.head.output_box_id if self.head else self.row.told.get("output_box_id")) or ""
        self.numbers = {step.step_id: place for place, step in enumerate(self.steps)}
        for position, card in read_box(self.tx, self.project, box, self.place.cards - 1) if box else ():
            if card.agent_turn_id == self.row.agent_turn_id:
                yield from self._steps_until(self._step_before(card))
                yield from self._card(card)
            self.place = replace(self.place, cards=position + 1, done=0)
        yield from self._steps_until(len(self.steps) - 1)
        yield from self._live()

    def _step_before(self, card: Card) -> int:
        """The step that began before a card was written; all of them for the end, which may be of no step."""
        last = card.card_id == self.row.told.get("deliverable_card_id")
        return len(self.steps) - 1 if last else self.numbers.get(card.step_id, -1)

    def _steps_until(self, last: int) -> Iterator[AgentEvent]:
        while self.place.steps <= last:
            step = self.steps[self.place.steps]
            self.place = replace(self.place, steps=self.place.steps + 1, said=0)
            yield self._event(EventKind.STEP, step.started_at, step.number)

    def _live(self) -> Iterator[AgentEvent]:
        """What the model has said since, while it speaks: the status of its step changes with its card."""
        step = self.steps[-1] if self.steps else None
        if step is None or step.status is not StepStatus.STARTED or self.row.is_over:
            return
        text = self._live_text(step.step_id)[self.place.said :]
        if text:
            self.place = replace(self.place, said=self.place.said + len(text))
            yield self._event(EventKind.TEXT, step.started_at, step.number, text=text)

    def _live_text(self, step_id: str) -> str:
        return text_of_step(self.tx, self.project, self.row.agent_id, self.row.agent_turn_id, step_id)

    def _card(self, card: Card) -> Iterator[AgentEvent]:
        """The events of a card, each with its place among them: a reader may come back between two."""
        for done, (kind, values) in enumerate(self._parts(card), 1):
            if done <= self.place.done:
                continue
            said = self.place.said + len(values["text"]) if kind is EventKind.TEXT else self.place.said
            self.place = replace(self.place, done=done, said=said)
            if kind in (EventKind.TEXT, EventKind.THINKING, EventKind.MESSAGE) and not values["text"]:
                continue
            index = self.numbers.get(card.step_id)
            number = 0 if index is None else self.steps[index].number
            yield self._event(kind, card.created_at, number, **values)

    def _parts(self, card: Card) -> list[tuple[EventKind, dict[str, Any]]]:
        call = {"tool": card.function_name, "call": card.tool_call_id}
        match card.type:
            case CardType.AGENT_THOUGHT:
                text = str(card.content.get("text", ""))
                rest, thoughts = self._unsaid(card, text), "\n".join(thoughts_of(card))
                return [
                    (EventKind.TEXT, {"text": rest}),
                    (EventKind.THINKING, {"text": thoughts}),
                    (EventKind.MESSAGE, {"text": text}),
                ]
            case CardType.TOOL_CALL:
                made = (EventKind.TOOL_CALL, {**call, "data": card.content.get("arguments")})
                asked = approval_of(card)
                needed = {**call, "data": None if asked is None else asdict(asked)}
                return [made] if asked is None else [made, (EventKind.APPROVAL_NEEDED, needed)]
            case CardType.GUARDRAIL if approval_of(card) is not None:
                return [(EventKind.APPROVAL_NEEDED, self._check_asks(card))]
            case CardType.TOOL_RESULT if card.tool_call_id in self._asked():
                return []  # a person's answer; the result of the call follows it
            case CardType.TOOL_RESULT:
                return [(EventKind.TOOL_RESULT, {**call, **_outcome(card)})]
            case CardType.TASK_DELIVERABLE if card.card_id == self.row.told.get("deliverable_card_id"):
                return [self._end(card)]
            case _:
                return []

    def _check_asks(self, card: Card) -> dict[str, Any]:
        """The question of a check, about input or output."""
        asked = approval_of(card)
        assert asked is not None
        name = str(card.content["data"]["question"])
        return {"tool": name, "call": asked.id, "data": asdict(asked)}

    def _asked(self) -> frozenset[str]:
        """The ids of the approvals that were asked for in this turn."""
        if self.asked is None:
            found = approvals_of_turn(self.tx, self.project, self.row.agent_turn_id)
            self.asked = frozenset(each.approval_id for each in found)
        return self.asked

    def _unsaid(self, card: Card, text: str) -> str:
        """The rest of a text whose beginning was given while it came; nothing if it began otherwise."""
        if self.numbers.get(card.step_id) != self.place.steps - 1 or not self.place.said:
            return text
        given = self._live_text(card.step_id)[: self.place.said]
        return text[self.place.said :] if not given or text.startswith(given) else ""

    def _end(self, card: Card) -> tuple[EventKind, dict[str, Any]]:
        delivered = Delivered.of(self.row.told, card)
        kind = EventKind.RESULT if delivered.succeeded else EventKind.FAILED
        data = delivered.data if delivered.data is not None else dict(delivered.fields) or None
        text = delivered.text if delivered.succeeded else delivered.error or delivered.text
        about = {"status": str(delivered.status), "error_code": delivered.error_code or ""}
        return kind, {"text": text, "data": data, "cut_off": delivered.cut_off, **about}

    def _event(self, kind: EventKind, time: int, step: int, **values: Any) -> AgentEvent:
        turn, agent = self.row.agent_turn_id, self.row.agent_id
        return AgentEvent(str(self.place), str(kind), time, turn, agent, step, **values)


def thoughts_of(card: Card) -> list[str]:
    """What the model thought, where its provider tells it as text."""
    found = []
    for block in card.content.get("blocks") or ():
        data = block.get("data") if block.get("type") == "opaque" else None
        if isinstance(data, Mapping):
            text = data.get("thinking") or (
                data.get("content") if data.get("part_kind") == "thinking" else ""
            )
            found += [text] if isinstance(text, str) and text else []
    return found


def _outcome(card: Card) -> dict[str, Any]:
    error = card.content.get("error") or {}
    return {
        "data": card.content.get("result"),
        "status": str(card.content.get("status", TaskStatus.SUCCESS)),
        "text": str(error.get("message", "")),
        "error_code": str(error.get("code", "")),
    }
