"""A turn as a transcript: what it was asked, what it thought, called and was answered, and what it delivered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Transaction
from afl.models.messages import CUT_OFF
from afl.operations.parameters import Turn
from afl.operations.turn.turn_files import FileView, files_view
from afl.operations.turn.turn_store import TurnStore, reading
from afl.operations.turn.turns import TurnLine, find_turn
from afl.turns.cardbox.boxes import read_box
from afl.turns.cardbox.cards import Card
from afl.turns.cardbox.deliverable import deliverable_text
from afl.turns.context import context_of_row
from afl.turns.model import InboxRow, WaitingTool
from afl.turns.protocol import headers as names
from afl.turns.sessions.records import session_of_turn
from afl.turns.statuses import CardType
from afl.turns.store import inbox
from afl.turns.store.edges import Edge
from afl.turns.store.heads import read_waiting
from afl.turns.store.steps import Step
from afl.turns.store.turn_queries import edges_about, instruction_of, turn_in_detail
from afl.turns.tools.answering import AUTHOR as APPROVALS


@dataclass(frozen=True, slots=True)
class CardView:
    """A card as text. `status` is that of a tool's result."""

    card: str
    type: str
    author: str
    step: str
    text: str
    tool: str
    call: str
    status: str
    created: int
    files: list[FileView] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StepView:
    """One step with what it cost; None: not known. `stop_reason`: why the reply ended: max_tokens, end_turn ..."""

    step: str
    number: int
    epoch: int
    status: str
    error: str
    model: str
    input_tokens: int
    output_tokens: int
    cost: float | None
    started: int
    ended: int | None
    stop_reason: str = ""

    @property
    def cut_off_at(self) -> str:
        """Where its reply was cut off; empty if it was not."""
        return CUT_OFF.get(self.stop_reason, "")


@dataclass(frozen=True, slots=True)
class EdgeView:
    """Who asked whom, and who answered."""

    primitive: str
    phase: str
    source: str
    source_turn: str
    target: str
    target_turn: str
    correlation: str
    depth: int
    created: int


@dataclass(frozen=True, slots=True)
class WaitView:
    """A tool call that a suspended turn waits for. `left_ms`: how long until its time is up."""

    call: str
    tool: str
    status: str
    deadline: int
    left_ms: int


@dataclass(frozen=True, slots=True)
class TurnView:
    """All there is to know of a turn. `context` is what it was given, `cards` what it wrote."""

    turn: TurnLine
    parent_agent: str
    parent_turn: str
    depth: int
    epoch: int
    trace: str
    context_box: str
    output_box: str
    context: list[CardView]
    cards: list[CardView]
    steps: list[StepView]
    edges: list[EdgeView]
    waits: list[WaitView]
    session: str = ""  # the one that it is a turn of

    @property
    def cost(self) -> float | None:
        """What its steps cost together; None when that of one is not known."""
        costs = [step.cost for step in self.steps if step.model]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def steps_until(self, step: str, shown: set[str]) -> list[StepView]:
        """The steps up to this one that are not `shown` yet, and are from now on: a lost worker's has no cards."""
        last = next((_place(each) for each in self.steps if each.step == step), (0, 0))
        found = sorted((s for s in self.steps if s.step not in shown and _place(s) <= last), key=_place)
        shown.update(each.step for each in found)
        return found


def _place(step: StepView) -> tuple[int, int]:
    return step.number, step.epoch


def show(where: TurnStore, name: Turn = "") -> TurnView:
    """Show a turn as a transcript: the question, its steps, calls and results, and the answer."""

    with reading(where) as database:
        now = database.now()

        def look(tx: Transaction) -> TurnView:
            return view(tx, where.project, find_turn(tx, where.project, name).agent_turn_id, now)

        return database.read(look)


def view(tx: Transaction, project: str, turn_id: str, now: int = 0) -> TurnView:
    """The transcript of a turn that exists; `now` is the store's time."""
    found, row = turn_in_detail(tx, project, turn_id), inbox.turn_row(tx, project, turn_id)
    assert found is not None and row is not None
    glance, head, steps = found
    output = (head.output_box_id if head else glance.told.get("output_box_id")) or ""
    context = row.payload.get("context_box_id") or ""
    return TurnView(
        TurnLine.of(glance, instruction_of(tx, glance, project)),
        row.context_headers.get(names.PARENT_AGENT, ""),
        row.context_headers.get(names.PARENT_TURN, ""),
        context_of_row(row).recursion_depth,
        head.turn_epoch if head else max([row.turn_epoch, *(step.turn_epoch for step in steps)]),
        context_of_row(row).trace_id,
        context,
        output,
        _cards(tx, project, context) if context else _asked(row),
        [card for card in _cards(tx, project, output, turn_id) if output],
        [_step(step) for step in steps],
        [_edge(edge) for edge in edges_about(tx, project, turn_id, context_of_row(row).trace_id)],
        [_wait(wait, now) for wait in read_waiting(tx, head)] if head is not None else [],
        session_of_turn(tx, project, turn_id, row.agent_id),
    )


def card_text(card: Card) -> str:
    """What a card says."""
    content = card.content
    if card.type == CardType.TOOL_CALL:
        return codec.encode(content.get("arguments"))
    if card.type == CardType.TOOL_RESULT:
        error = content.get("error")
        if card.author_id == APPROVALS and error is None:
            return approval_text(content)
        result = content.get("result")
        if error is None:
            return _plain(result)
        why = f"{error['code']}: {error['message']}"
        return why if result is None else f"{why}\n{_plain(result)}"  # there is one in part
    if card.type == CardType.RESULT_FIELDS:
        fields = [f"{each['name']} ({each.get('description', '')})" for each in content["fields"]]
        return ", ".join(fields).replace(" ()", "")
    return deliverable_text(content)


def approval_text(content: Mapping[str, Any]) -> str:
    """The answer of a person who let a tool be called."""
    result = content.get("result") or {}
    return f"approved by {result.get('by')}{', with other arguments' if result.get('edited') else ''}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else codec.encode(value)


def _cards(tx: Transaction, project: str, box: str, turn_id: str | None = None) -> list[CardView]:
    return [
        CardView(
            card.card_id,
            card.type,
            card.author_id,
            card.step_id,
            card_text(card),
            card.function_name,
            card.tool_call_id,
            str(card.content.get("status", "")) if card.type == CardType.TOOL_RESULT else "",
            card.created_at,
            files_view(card),
        )
        for _, card in read_box(tx, project, box)
        if (turn_id is None or card.agent_turn_id == turn_id) and card.type != CardType.SESSION
    ]


def _asked(row: InboxRow) -> list[CardView]:
    """A UI action has no context box: what was asked for stands in its message."""
    text = codec.encode(row.payload.get("args") or {})
    tool = str(row.payload.get("tool_name", ""))
    return [CardView("", str(row.message_type), "", "", text, tool, "", "", row.created_at)]


def _step(step: Step) -> StepView:
    usage = step.metadata.get("llm_usage") or {}
    return StepView(
        step.step_id,
        step.number,
        step.turn_epoch,
        str(step.status),
        step.error or "",
        str(step.metadata.get("model", "")),
        int(usage.get("input_tokens", 0)),
        int(usage.get("output_tokens", 0)),
        step.metadata.get("llm_response_cost"),
        step.started_at,
        step.ended_at,
        str(step.metadata.get("stop_reason", "")),
    )


def _edge(edge: Edge) -> EdgeView:
    return EdgeView(
        edge.primitive,
        edge.edge_phase,
        edge.source_agent_id,
        edge.source_agent_turn_id,
        edge.target_agent_id,
        edge.target_agent_turn_id,
        edge.correlation_id,
        edge.recursion_depth,
        edge.created_at,
    )


def _wait(wait: WaitingTool, now: int) -> WaitView:
    left = wait.deadline - now
    return WaitView(wait.tool_call_id, wait.tool_name, str(wait.wait_status), wait.deadline, left)
