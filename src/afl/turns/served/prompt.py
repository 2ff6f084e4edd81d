"""What an agent of Pydantic AI is asked in a turn, and what was said before."""

from __future__ import annotations

from pydantic_ai.messages import ModelMessage

from afl.models import Message, Request, Text
from afl.models.provider_messages import messages_of
from afl.turns.statuses import CardType
from afl.turns.worker.conversation import messages
from afl.turns.worker.turn_state import TurnState

_SAID = (CardType.AGENT_THOUGHT, CardType.TASK_DELIVERABLE, CardType.TOOL_RESULT)


def prompt_and_history(state: TurnState) -> tuple[str, list[ModelMessage]]:
    """What the agent is asked now, and what was said before, from the cards that others wrote."""
    own = {card.card_id for card in state.own}
    cards = [card for card in state.conversation if card.card_id not in own]
    last = max((place for place, card in enumerate(cards) if card.type in _SAID), default=-1)
    asked = [card for card in cards[last + 1 :] if card.type != CardType.RESULT_FIELDS]
    words = [_words(message) for message in messages(asked)]
    history = messages_of(Request(messages(cards[: last + 1])))
    return "\n\n".join(words), history


def _words(message: Message) -> str:
    return "\n\n".join(block.text for block in message.content if isinstance(block, Text))
