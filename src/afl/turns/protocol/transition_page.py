"""The transitions as a page shows them: docs/turns-protocol.md holds what this renders, and a test compares."""

from __future__ import annotations

from afl.turns.protocol.transitions import TRANSITIONS, Transition, diagram

BEGIN = "<!-- made from afl.turns.protocol.transitions; do not edit by hand -->"
END = "<!-- end of what is made -->"
_COLUMNS = (
    "| | from | to | who | with | if | and in the same transaction | told afterwards |",
    "|---" * 8 + "|",
)


def render() -> str:
    """The diagram, and the table below it."""
    lines = [BEGIN, "", "```mermaid", diagram(), "```", "", *_COLUMNS, *map(_row, TRANSITIONS), "", END]
    return "\n".join(lines)


def _row(transition: Transition) -> str:
    effects = [*transition.effects, *(["epoch + 1"] if transition.bump else [])]
    cells = (
        transition.name,
        ", ".join(transition.sources),
        transition.target,
        transition.actor,
        f"`{transition.function}`",
        transition.guard,
        "; ".join(effects),
        "; ".join(transition.after),
    )
    return f"| {' | '.join(cells)} |"
