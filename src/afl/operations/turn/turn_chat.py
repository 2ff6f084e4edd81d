"""A turn that is asked for with the whole conversation before it, as chat front ends send it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.models.result_type import result_type
from afl.operations.turn.turn_store import TurnStore, with_agents
from afl.operations.turn.turns import known_agent
from afl.turns.agents import USER, Agents
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.boxes import create_box
from afl.turns.cardbox.card_store import save_cards
from afl.turns.cardbox.cards import NewCard
from afl.turns.content.given import Told
from afl.turns.content.instruction import instruction
from afl.turns.model import TurnRef
from afl.turns.statuses import BoxKind, CardType
from afl.turns.store.steps import read_steps

ASSISTANT = "assistant"
_USER = "user"


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a conversation: of the user, or of the assistant."""

    role: str
    text: str
    parts: Sequence[Any] = ()  # text and files in their order, if there are files

    @property
    def told(self) -> Told:
        return self.parts or self.text


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What the models of a turn used."""

    input: int
    output: int


def chat(
    where: TurnStore,
    agent: str,
    messages: Sequence[Said],
    *,
    result: Mapping[str, Any] | None = None,
    correlation: str | None = None,
) -> TurnRef:
    """Ask an agent for a turn with the last message; it reads the others before it."""
    if not any(each.role == _USER for each in messages) or messages[-1].role == ASSISTANT:
        raise InputError("the last message must be one of the user")
    if not messages[-1].text.strip() and not messages[-1].parts:
        raise InputError("the last message is empty")
    wanted = None if result is None else result_type(result)

    async def work(agents: Agents) -> TurnRef:
        await agents.engine.database.run("read", lambda tx: known_agent(tx, where.project, agent))
        earlier = [await _card(agents, each, agent) for each in messages[:-1]]
        history = [await _box(agents, earlier)] if earlier else []
        last = messages[-1].told
        return await agents.send(agent, last, history=history, result=wanted, correlation_id=correlation)

    return with_agents(where, work)


async def _card(agents: Agents, said: Said, agent: str) -> NewCard:
    """The cards of an assistant's message are deliverables of no turn, which a model reads as its own words."""
    if said.role == ASSISTANT:
        return NewCard(CardType.TASK_DELIVERABLE, contents.text(said.text), agent)
    return await instruction(agents.engine.content, agents.project, said.told, USER)


async def _box(agents: Agents, cards: Sequence[NewCard]) -> str:
    def work(tx: Transaction) -> str:
        save_cards(tx, agents.project, cards, agents.engine.limits)
        return create_box(tx, agents.project, BoxKind.CONTEXT, [card.card_id for card in cards])

    return await agents.engine.database.run("write", work)


def usage_of(tx: Transaction, turn: TurnRef) -> TokenUsage:
    """The tokens of all steps of a turn."""
    found = [
        step.metadata.get("llm_usage") or {} for step in read_steps(tx, turn.project_id, turn.agent_turn_id)
    ]
    return TokenUsage(
        sum(int(each.get("input_tokens", 0)) for each in found),
        sum(int(each.get("output_tokens", 0)) for each in found),
    )
