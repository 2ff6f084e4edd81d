"""The card of what an agent is told."""

from __future__ import annotations

from afl.models.content import described
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.cards import NewCard
from afl.turns.cardbox.parts import with_parts, words_of
from afl.turns.content.given import Told, parts_given
from afl.turns.content.keeper import ContentKeeper
from afl.turns.statuses import CardType


async def instruction(content: ContentKeeper, project: str, told: Told, author: str) -> NewCard:
    """A `task.instruction` card, whose large files are stored; text alone is stored nowhere before."""
    if isinstance(told, str):
        return NewCard(CardType.TASK_INSTRUCTION, contents.text(told), author)
    parts = parts_given(told)
    files = [part for part in parts if not isinstance(part, str)]
    words = words_of(parts) or " ".join(map(described, files))
    card = NewCard(CardType.TASK_INSTRUCTION, contents.text(words), author)
    if not files:
        return card
    stored = await content.keep(project, card.card_id, parts)
    return NewCard(card.type, with_parts(card.content, stored), author, card_id=card.card_id)
