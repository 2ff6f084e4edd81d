"""What a tool returned that has files."""

from __future__ import annotations

from collections.abc import Sequence

from afl.models.content import described
from afl.turns.cardbox.parts import Part
from afl.turns.content.keeper import ContentKeeper
from afl.turns.protocol.ids import new_id
from afl.turns.tools.outcome import SUSPEND, Outcome


async def kept_outcome(
    content: ContentKeeper, project: str, parts: Sequence[Part], after_execution: str = SUSPEND
) -> Outcome:
    """The outcome of a call that returned files: they are stored, and its result is text that names them."""
    card = new_id("card")
    stored = await content.keep(project, card, parts)
    told = "\n".join(part if isinstance(part, str) else described(part) for part in parts)
    return Outcome("success", told, None, after_execution, stored, card)
