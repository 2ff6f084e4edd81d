"""The state of a turn in its worker's memory, and what the turn does next.

The state is loaded once when the worker gets the turn, and kept up to date by the worker's own writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.database import Row, Transaction, queries
from afl.kernel.errors import InputError
from afl.turns.cardbox.card_store import card_of
from afl.turns.cardbox.cards import Card, NewCard
from afl.turns.model import Head
from afl.turns.orchestration.requests import KINDS
from afl.turns.resources import Tool as ToolRow
from afl.turns.resources import get_profile, get_tools
from afl.turns.sessions.history import Unsummarized, is_member, past_of
from afl.turns.statuses import AfterExecution, CardType, TaskStatus
from afl.turns.store.heads import read_waiting
from afl.turns.store.steps import StepEnd, read_steps
from afl.turns.tools.expected import Expected, expected_by_card, read_type
from afl.turns.tools.local import Toolbox
from afl.turns.tools.questions import open_question
from afl.turns.worker.conversation import conversation, last_thought
from afl.turns.worker.toolkit import LLM_CONFIG, LlmConfig, Profile, Toolkit, profile_of

Q = queries("afl.turns.worker")
_PROFILES = 1024


@dataclass
class TurnState:
    """One turn. `output` grows with the cards that the turn writes, so that no step reads its box again."""

    head: Head
    toolkit: Toolkit
    context: Sequence[Card]
    output: list[Card]
    step_id: str
    step_ends: dict[str, StepEnd] = field(default_factory=dict)  # of steps whose tools are running
    awaited: set[str] = field(default_factory=set)  # ids of calls that were sent while the turn runs on
    unsummarized: Unsummarized | None = None  # turns of its session that no longer fit

    @property
    def profile(self) -> Profile:
        return self.toolkit.profile

    @property
    def llm(self) -> LlmConfig:
        """How the model is called: as the profile says, and what was asked for says otherwise."""
        asked = next(
            (card for card in reversed(self.context) if card.type == CardType.TASK_INSTRUCTION), None
        )
        return self.profile.llm.with_call(None if asked is None else asked.metadata.get(LLM_CONFIG))

    @property
    def session(self) -> Mapping[str, Any]:
        """The session that it is a turn of, its place there and its budget; empty if there is none."""
        card = next((card for card in reversed(self.context) if card.type == CardType.SESSION), None)
        return {} if card is None else card.content["data"]

    @property
    def turn_id(self) -> str:
        return self.head.active_agent_turn_id or ""

    @property
    def is_action(self) -> bool:
        """Whether a person called a tool, and no model takes part."""
        return self.head.context_box_id is None

    @property
    def conversation(self) -> list[Card]:
        return conversation(self.context, self.output, self.turn_id)

    @property
    def own(self) -> list[Card]:
        """The cards of this turn."""
        return [card for card in self.output if card.agent_turn_id == self.turn_id]

    @property
    def diagnostics(self) -> dict[str, Any]:
        """The diagnostics of a fallback deliverable."""
        results = sum(card.type == CardType.TOOL_RESULT for card in self.own)
        return {
            "last_agent_thought": last_thought(self.output, self.turn_id)[-2000:],
            "tool_result_count": results,
        }

    def advance(self, head: Head, cards: Iterable[NewCard] = (), step_id: str | None = None) -> None:
        """Set the head after a transition, and add the cards that it wrote."""
        self.head = head
        self.output.extend(_as_card(card) for card in cards)
        self.step_id = step_id or self.step_id


@dataclass(frozen=True, slots=True)
class CallModel:
    """The next action: call the model."""


@dataclass(frozen=True, slots=True)
class CallTools:
    """The next action: call the tools that have not answered; their calls are stored already."""

    step_id: str
    calls: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class EndWithResult:
    """The next action: end the turn with a tool's result."""

    step_id: str
    card: Card
    status: TaskStatus


@dataclass(frozen=True, slots=True)
class Settle:
    """The next action: act on a person's answer to the question of a check."""

    step_id: str
    card: NewCard


NextAction = CallModel | CallTools | EndWithResult | Settle


def next_action(cards: Sequence[NewCard], turn_id: str) -> NextAction:
    """What a running turn does next. It depends on the cards of the turn alone, so a takeover continues correctly."""
    own = [card for card in cards if card.agent_turn_id == turn_id]
    question = open_question(own)
    if question is not None:
        return Settle(question.step_id, question)
    thought = _last_call(own)
    if thought is None:
        return CallModel()
    results = {card.tool_call_id: card for card in own if card.type == CardType.TOOL_RESULT}
    unanswered = [call for call in thought.tool_calls if call["id"] not in results]
    if unanswered:
        return CallTools(thought.step_id, unanswered)
    final = final_result([_as_card(results[call["id"]]) for call in thought.tool_calls])
    return CallModel() if final is None else EndWithResult(thought.step_id, *final)


def final_result(results: Sequence[Card]) -> tuple[Card, TaskStatus] | None:
    """The result that ends the turn, of those of a step: the first that failed, else the first; None: it goes on."""
    final = [(card, _status(card)) for card in results if card.after_execution == AfterExecution.TERMINATE]
    failures = [each for each in final if each[1] is not TaskStatus.SUCCESS]
    return next(iter(failures or final), None)


def _status(card: Card) -> TaskStatus:
    """The status of a tool's result; an unknown word is a failure."""
    status = card.content.get("status")
    return TaskStatus(status) if status in tuple(TaskStatus) else TaskStatus.FAILED


def _last_call(own: Sequence[NewCard]) -> NewCard | None:
    """The last thought of a turn, if it called tools and was not refused as an end since."""
    said = (CardType.AGENT_THOUGHT, CardType.MUST_END_WITH)
    last = next((card for card in reversed(own) if card.type in said), None)
    return last if last is not None and last.tool_calls else None


def _as_card(card: NewCard) -> Card:
    """A card that was just written, as it will be read."""
    if isinstance(card, Card):
        return card
    return Card(**{name: getattr(card, name) for name in NewCard.__slots__})


class TurnStateLoader:
    """Loads the states of turns. Profiles are cached: a profile box never changes."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._profiles: dict[tuple[str, str], Profile] = {}

    def load(
        self, tx: Transaction, head: Head, step_id: str, cards: Sequence[Row] | None = None
    ) -> TurnState:
        """The state of a running turn; InputError when its profile cannot be read. `cards`: those of its boxes."""
        profile = self._profile(tx, head)
        names = self._remote_tools(profile)
        tools = [] if names == [] else get_tools(tx, head.project_id, names)
        rows = read_boxes(tx, head) if cards is None else cards
        state = self._state(head, step_id, rows, profile, {tool.tool_name: tool for tool in tools})
        read_past(tx, state)
        return state

    def from_cache(self, head: Head, step_id: str, cards: Sequence[Row]) -> TurnState | None:
        """The state without a read of the store; None when the store must be read."""
        profile = self._profiles.get((head.project_id, head.profile_box_id or ""))
        if profile is None or self._remote_tools(profile) != []:
            return None
        state = self._state(head, step_id, cards, profile, {})
        return None if any(map(is_member, state.context)) else state

    def reload(self, tx: Transaction, head: Head, step_id: str) -> TurnState:
        """The state of a turn that another worker began, or that was interrupted, with its steps and wait set."""
        state = self.load(tx, head, step_id)
        for step in read_steps(tx, head.project_id, state.turn_id):
            state.step_ends[step.step_id] = StepEnd(
                step.step_id, metadata=step.metadata, tool_call_ids=step.tool_call_ids
            )
            if step.ended_at is None:
                state.step_id = step.step_id
        state.awaited = {wait.tool_call_id for wait in read_waiting(tx, head) if wait.is_open}
        return state

    def _state(
        self, head: Head, step_id: str, cards: Sequence[Row], profile: Profile, tools: Mapping[str, ToolRow]
    ) -> TurnState:
        context = [card_of(row) for row in cards if row["box_id"] == head.context_box_id]
        output = [card_of(row) for row in cards if row["box_id"] == head.output_box_id]
        toolkit = Toolkit(profile, self._toolbox, tools, self._expected(context, profile))
        return TurnState(head, toolkit, context, output, step_id)

    def _expected(self, context: Sequence[Card], profile: Profile) -> Expected | None:
        """What the newest `task.result_fields` card asks for, else the profile; None when neither does."""
        kinds = (CardType.RESULT_FIELDS, CardType.TASK_DELIVERABLE)
        newest = next((card for card in reversed(context) if card.type in kinds), None)
        known = self._toolbox.result_types
        if (
            newest is not None and newest.type == CardType.RESULT_FIELDS
        ):  # it was not answered by an earlier turn
            return expected_by_card(newest.content, known)
        type = read_type(profile.result, known)
        return None if type is None else Expected(type=type)

    def _remote_tools(self, profile: Profile) -> list[str] | None:
        """The names of tools to read from the store, None: all. Functions of this process are not read."""
        if profile.allowed_tools is None:
            return None
        wanted = {*profile.allowed_tools, *(name for name in KINDS if profile.allows_builtin(name))}
        return sorted(name for name in wanted if self._toolbox.find(name) is None)

    def _profile(self, tx: Transaction, head: Head) -> Profile:
        key = (head.project_id, head.profile_box_id or "")
        known = self._profiles.get(key)
        if known is not None:
            return known
        found = get_profile(tx, *key)
        if found is None:
            raise InputError(f"agent {head.agent_id}: there is no profile in box {key[1]!r}")
        if len(self._profiles) >= _PROFILES:
            self._profiles.clear()
        self._profiles[key] = profile_of(found.profile)
        return self._profiles[key]


def read_past(tx: Transaction, state: TurnState) -> None:
    """Put what came before in a session in the place of the card that says so."""
    if not any(map(is_member, state.context)):
        return
    read: list[Card] = []
    for card in state.context:
        if not is_member(card):
            read.append(card)
            continue
        past = past_of(tx, state.head.project_id, card, state.profile.history)
        read += [*past.cards, card]
        state.unsummarized = past.unsummarized
    state.context = read


def read_boxes(tx: Transaction, head: Head) -> list[Row]:
    """The cards of the context box and of the output box."""
    boxes = [box for box in (head.context_box_id, head.output_box_id) if box is not None]
    return tx.all(Q.read_boxes, project=head.project_id, boxes=boxes)
