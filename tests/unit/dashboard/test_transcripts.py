"""A turn's cards and steps in one order, as its page tells them."""

from __future__ import annotations

from typing import Any

from afl.dashboard.pages.turns import Entry, transcript
from afl.operations.turn.turn_view import CardView, StepView, TurnView
from afl.operations.turn.turns import TurnLine

LINE = TurnLine("turn_1", "ada", "turn", "running", False, 1, None, "", "")


def card(kind: str, text: str = "", step: str = "s1", **more: str) -> CardView:
    fields = {"card": f"card_{kind}_{text}", "author": "ada", "tool": "", "call": "", "status": "", **more}
    return CardView(type=kind, text=text, step=step, created=1, **fields)


def step(name: str, number: int = 1, epoch: int = 1) -> StepView:
    return StepView(name, number, epoch, "completed", "", "", 0, 0, None, 1, 2)


def view(cards: list[CardView], steps: list[StepView], context: list[CardView] | None = None) -> TurnView:
    return TurnView(LINE, "", "", 0, 1, "", "", "", context or [], cards, steps, [], [])


def told(entries: list[Entry]) -> list[Any]:
    return [
        each.step.step if each.step is not None else (each.kind, each.card.text if each.card else "")
        for each in entries
    ]


def test_the_context_comes_first_and_a_step_before_its_cards() -> None:
    asked = card("task.instruction", "do it", step="")
    cards = [card("agent.thought", "hm"), card("task.deliverable", "done", step="s2")]
    entries = transcript(view(cards, [step("s1"), step("s2", 2)], [asked]))
    assert told(entries) == [("card", "do it"), "s1", ("card", "hm"), "s2", ("card", "done")]
    assert [each.word for each in entries if each.kind == "card"] == ["asks", "says", "delivers"]


def test_a_result_stands_with_its_call_as_data() -> None:
    cards = [
        card("tool.call", '{"q":"x"}', call="c1", tool="search"),
        card("tool.call", "not json", call="c2", tool="search"),
        card("tool.result", '{"found":1}', call="c1", tool="search", status="success"),
        card("tool.result", "of nobody's call", call="c9", tool="search", step=""),
    ]
    first, second, third = transcript(view(cards, []))
    assert (first.value, first.answer) == ({"q": "x"}, {"found": 1})
    assert first.result is not None and first.result.status == "success"
    assert (second.value, second.result) == ("not json", None)
    assert told([third]) == [("card", "of nobody's call")]


def test_what_was_only_thought_to_be_delivered_is_told_once() -> None:
    cards = [card("agent.thought", ""), card("agent.thought", "42"), card("task.deliverable", "42")]
    assert told(transcript(view(cards, [step("s1")]))) == ["s1", ("card", "42")]


def test_steps_without_cards_are_told_at_the_end() -> None:
    assert told(transcript(view([card("agent.thought", "hm")], [step("s1"), step("s2", 2)]))) == [
        "s1",
        ("card", "hm"),
        "s2",
    ]


def test_a_step_whose_worker_was_lost_is_told_before_the_one_that_replaced_it() -> None:
    cards = [card("agent.thought", "hm", step="again"), card("agent.thought", "so", step="next")]
    steps = [step("again", 1, 2), step("next", 2, 2), step("lost", 1, 1)]
    told_in_order = ["lost", "again", ("card", "hm"), "next", ("card", "so")]
    assert told(transcript(view(cards, steps))) == told_in_order
