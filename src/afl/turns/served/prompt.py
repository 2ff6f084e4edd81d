"""What an agent of Pydantic AI is asked in a turn, and what was said before."""

from __future__ import annotations

from pydantic_ai.messages import ModelMessage, UserContent

from afl.models import Request, Text
from afl.models.provider_messages import messages_of, user_content
from afl.turns.content.keeper import ContentKeeper
from afl.turns.statuses import CardType
from afl.turns.worker.conversation import messages
from afl.turns.worker.turn_state import TurnState

_SAID = (CardType.AGENT_THOUGHT, CardType.TASK_DELIVERABLE, CardType.TOOL_RESULT)
Prompt = str | list[UserContent]


async def prompt_and_history(state: TurnState, content: ContentKeeper) -> tuple[Prompt, list[ModelMessage]]:
    """What the agent is asked now, and what was said before, from the cards that others wrote."""
    own = {card.card_id for card in state.own}
    cards = [card for card in state.conversation if card.card_id not in own]
    last = max((place for place, card in enumerate(cards) if card.type in _SAID), default=-1)
    asked = [card for card in cards[last + 1 :] if card.type != CardType.RESULT_FIELDS]
    said = await content.loaded_messages(messages(asked))
    before = await content.loaded_messages(messages(cards[: last + 1]))
    blocks = [block for message in said for block in message.content]
    history = messages_of(Request(before))
    if all(isinstance(block, Text) for block in blocks):
        return "\n\n".join(block.text for block in blocks if isinstance(block, Text)), history
    return [user_content(block) for block in blocks], history
