"""docs/turns-protocol.md shows the transitions as they are in the code."""

from __future__ import annotations

from pathlib import Path

from afl.turns.protocol.transition_page import BEGIN, END, render
from afl.turns.protocol.transitions import TRANSITIONS

PAGE = Path(__file__).parents[3] / "docs" / "turns-protocol.md"


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    made = text[text.index(BEGIN) : text.index(END) + len(END)]
    assert made == render()


def test_every_transition_is_in_the_diagram_and_in_the_table() -> None:
    made = render()
    for transition in TRANSITIONS:
        assert f"| {transition.name} | {', '.join(transition.sources)} | {transition.target} |" in made
        assert f"{transition.name} {transition.function}" in made
