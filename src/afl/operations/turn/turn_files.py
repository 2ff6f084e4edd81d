"""Files of turns as an operator gets them: what people gave and tools returned."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from afl.kernel.bounds import LONGEST_NAME
from afl.models.content import Content, File, FileUrl
from afl.operations.turn.turn_store import TurnStore, limits_of, reading
from afl.turns.cardbox.cards import Card
from afl.turns.cardbox.parts import files_of
from afl.turns.content.keeper import ContentKeeper


@dataclass(frozen=True, slots=True)
class FileView:
    """A file of a card without its bytes; `url` is that of one that is elsewhere."""

    number: int
    name: str
    media_type: str
    size: int
    url: str = ""


def files_view(card: Card) -> list[FileView]:
    """The files of a card."""
    return [_view(number, part) for number, part in enumerate(files_of(card.content))]


def _view(number: int, part: Content) -> FileView:
    if isinstance(part, FileUrl):
        return FileView(number, "", part.media_type, 0, part.url)
    return FileView(number, part.name, part.media_type, part.size)


def read_file(
    where: TurnStore,
    card: Annotated[str, Meta(max_length=LONGEST_NAME, description="The card that has it.")],
    number: Annotated[int, Meta(ge=0, le=10_000, description="Its place among the files of the card.")],
) -> File:
    """Read a file of a turn: one that an agent was given, or that a tool returned."""

    with reading(where) as database:
        content = ContentKeeper(database, limits_of(where.settings), where.settings.blobs)
        return asyncio.run(content.file_of(where.project, card, number))
