"""Tool calls of agents in the approvals inbox: shown with their arguments, answered with others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, shown, visitors

from afl.models import ScriptedModel
from afl.models.scripted import calls
from afl.operations.people import approvals
from afl.operations.people.forms import FormError
from afl.turns import open_agents, tool


@tool(approve="finance")
def pay(to: str, cents: int) -> str:
    """Pay somebody."""
    return "paid"


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    async def ask(found: Visitors) -> None:
        model = ScriptedModel([calls("pay", {"to": MARKUP, "cents": 700})])
        async with open_agents(store_url, model=model) as agents:
            await agents.define("clerk", tools=[pay])
            await agents.send("clerk", "Pay Ada.")
            async with asyncio.timeout(10):
                while not approvals.list_approvals(found.store):
                    await asyncio.sleep(0.005)

    with visitors(store_url) as found:
        asyncio.run(ask(found))
        yield found


def test_a_call_is_shown_edited_and_answered_once(house: Visitors) -> None:
    (question,) = approvals.list_approvals(house.store)
    assert "clerk asks to call pay" in house.viewer.read("/approvals?group=finance")
    path = f"/approvals/{question.id}"
    page = house.operator.open(path)
    assert "Pay somebody." in shown(page) and MARKUP in shown(page)
    assert 'name="field.cents" value="700"' in page and f"/turns/{question.turn}" in page
    with pytest.raises(FormError) as refused:
        approvals.answer(house.store, question.id, {"cents": "many"})
    assert list(refused.value.problems) == ["cents"]
    told = house.operator.act(f"{path}/answer", **{"field.to": "Ada", "field.cents": "5"})
    assert (told.kind, told.text) == ("good", "Approved: clerk asks to call pay.")
    again = house.operator.act(f"{path}/reject", feedback="no")
    assert again.kind == "note" and "was answered by" in again.text
    assert approvals.show_approval(house.store, question.id).answer == {"to": "Ada", "cents": 5}
    assert "clerk asks to call pay" in house.viewer.read("/approvals?view=answered")
