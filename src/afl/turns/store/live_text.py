"""What models are saying: the text of the step under way of each agent, for those who read along elsewhere.

It is written a few times a second and by nobody's fence, so it may be missing, or be that of a call that came to
nothing. The cards are the truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from afl.kernel.database import Transaction, queries

Q = queries("afl.turns.store", "sql/live_text")


@dataclass(frozen=True, slots=True)
class LiveText:
    """The text of a step so far."""

    project_id: str
    agent_id: str
    agent_turn_id: str
    step_id: str
    turn_epoch: int
    said: str


def store_texts(tx: Transaction, texts: Iterable[LiveText]) -> None:
    """Replace the text of each agent, unless it is that of a later epoch."""
    for each in sorted(
        texts, key=lambda text: (text.project_id, text.agent_id)
    ):  # one order of locks for all
        tx.queue(
            Q.store_text,
            project=each.project_id,
            agent=each.agent_id,
            turn=each.agent_turn_id,
            step=each.step_id,
            epoch=each.turn_epoch,
            said=each.said,
        )


def text_of_step(tx: Transaction, project_id: str, agent_id: str, turn_id: str, step_id: str) -> str:
    """The text of a step as far as it is stored; empty if none is."""
    row = tx.one(Q.text_of_step, project=project_id, agent=agent_id, turn=turn_id, step=step_id)
    return "" if row is None else str(row["said"])
