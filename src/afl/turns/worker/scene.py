"""What a worker knows of the turn it runs: read once when the turn comes into its hands, then kept up by itself."""

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
from afl.turns.statuses import CardType
from afl.turns.store.heads import read_waiting
from afl.turns.store.steps import StepEnd, read_steps
from afl.turns.tools.local import Toolbox
from afl.turns.tools.submit import Field, required_fields
from afl.turns.worker.moves import as_card
from afl.turns.worker.profile import Profile, profile_of
from afl.turns.worker.prompting import conversation, last_thought
from afl.turns.worker.toolkit import Toolkit

Q = queries("afl.turns.worker")
_PROFILES = 1024


@dataclass
class Scene:
    """One turn in hand. `output` grows with what the turn writes, so that no step reads its box again."""

    head: Head
    toolkit: Toolkit
    context: Sequence[Card]
    output: list[Card]
    step_id: str
    ends: dict[str, StepEnd] = field(default_factory=dict)  # of steps whose tools are at work
    awaited: set[str] = field(default_factory=set)  # calls that were sent while the turn ran on

    @property
    def profile(self) -> Profile:
        return self.toolkit.profile

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

    def moved(self, head: Head, cards: Iterable[NewCard] = (), step_id: str | None = None) -> None:
        """The turn is there now, and these cards are in its box."""
        self.head = head
        self.output.extend(as_card(card) for card in cards)
        self.step_id = step_id or self.step_id

    @property
    def own(self) -> list[Card]:
        """The cards of this turn."""
        return [card for card in self.output if card.agent_turn_id == self.turn_id]

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What a fallback deliverable tells of the way here."""
        results = sum(card.type == CardType.TOOL_RESULT for card in self.own)
        return {
            "last_agent_thought": last_thought(self.output, self.turn_id)[-2000:],
            "tool_result_count": results,
        }


class Scenes:
    """Reads scenes. Profiles are kept: a box of one never changes."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._profiles: dict[tuple[str, str], Profile] = {}

    def read(self, tx: Transaction, head: Head, step_id: str) -> Scene:
        """What a running turn needs to go on; InputError when its profile cannot be read."""
        return self.made(tx, head, step_id, read_rows(tx, head))

    def at_once(self, head: Head, step_id: str, cards: Sequence[Row]) -> Scene | None:
        """The scene of cards that were read already; None when the store must be asked for more."""
        profile = self._profiles.get((head.project_id, head.profile_box_id or ""))
        if profile is None or self._remote(profile) != []:
            return None
        return self._scene(head, step_id, cards, profile, {})

    def made(self, tx: Transaction, head: Head, step_id: str, cards: Sequence[Row]) -> Scene:
        """The same, with what is in the store of its profile and tools."""
        profile = self.profile(tx, head)
        return self._scene(head, step_id, cards, profile, self._rows(tx, head, profile))

    def _scene(
        self,
        head: Head,
        step_id: str,
        cards: Sequence[Row],
        profile: Profile,
        rows: Mapping[str, ToolRow],
    ) -> Scene:
        context = [card_of(row) for row in cards if row["box_id"] == head.context_box_id]
        output = [card_of(row) for row in cards if row["box_id"] == head.output_box_id]
        toolkit = Toolkit(profile, self._toolbox, rows, asked_fields(context))
        return Scene(head, toolkit, context, output, step_id)

    def recall(self, tx: Transaction, head: Head, step_id: str) -> Scene:
        """A turn that was under way: with what its steps cost by now, and what it waits for."""
        scene = self.read(tx, head, step_id)
        for step in read_steps(tx, head.project_id, scene.turn_id):
            scene.ends[step.step_id] = StepEnd(
                step.step_id, metadata=step.metadata, tool_call_ids=step.tool_call_ids
            )
            if step.ended_at is None:
                scene.step_id = step.step_id
        scene.awaited = {wait.tool_call_id for wait in read_waiting(tx, head) if wait.is_open}
        return scene

    def _rows(self, tx: Transaction, head: Head, profile: Profile) -> dict[str, ToolRow]:
        """The tools of other processes that the profile allows."""
        names = self._remote(profile)
        if names == []:
            return {}
        return {row.tool_name: row for row in get_tools(tx, head.project_id, names)}

    def _remote(self, profile: Profile) -> list[str] | None:
        """The names to ask the store for, None: all; none is asked for that is a function of this process."""
        if profile.allowed_tools is None:
            return None
        wanted = {*profile.allowed_tools, *(name for name in KINDS if profile.allows_builtin(name))}
        return sorted(name for name in wanted if self._toolbox.find(name) is None)

    def profile(self, tx: Transaction, head: Head) -> Profile:
        """The profile of the active turn."""
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


def asked_fields(context: Sequence[Card]) -> list[Field] | None:
    """The fields that the newest `task.result_fields` card asks for; None when there is none, or it was answered."""
    kinds = (CardType.RESULT_FIELDS, CardType.TASK_DELIVERABLE)
    newest = next((card for card in reversed(context) if card.type in kinds), None)
    if newest is None or newest.type == CardType.TASK_DELIVERABLE:
        return None
    return required_fields(newest.content)


def read_rows(tx: Transaction, head: Head) -> list[Row]:
    """The cards of the context box and of the output box, in one reading."""
    boxes = [box for box in (head.context_box_id, head.output_box_id) if box is not None]
    return tx.all(Q.read_boxes, project=head.project_id, boxes=boxes)
