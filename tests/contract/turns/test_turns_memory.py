"""The memory of agents: what is kept for a session or for all, and found by its words."""

from __future__ import annotations

from typing import Any

from support.event_loop import in_event_loop

from afl.kernel.database import Database
from afl.models import Request, ScriptedModel
from afl.models.messages import ToolResult
from afl.models.scripted import calls
from afl.turns import open_agents
from afl.turns.orchestration.memory import forget, recall, remember, words_of
from afl.turns.store.tables import ensure_tables

TOOLS = ["remember", "remember_for_all", "recall"]


def answers(request: Request) -> list[str]:
    return [
        block.content
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolResult)
    ]


def script(*steps: tuple[str, dict[str, Any]]) -> list[Any]:
    return [each for name, arguments in steps for each in (calls(name, arguments), "ok")]


@in_event_loop
async def test_what_is_kept_for_a_session_and_for_all(database: Database) -> None:
    model = ScriptedModel(
        script(
            ("remember", {"text": "Ada likes tea."}),
            ("remember_for_all", {"text": "The shop sells tea and coffee."}),
            ("recall", {"query": "TEA"}),
            ("recall", {"query": "tea"}),
        )
    )
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", tools=TOOLS, history={"last": 0})
        ada, bob = agents.session("ada", "guide"), agents.session("bob", "guide")
        for session in (ada, ada, ada, bob):
            assert (await session.ask("go")).succeeded
        found = [answers(request)[-1] for request in model.requests[1::2]]
        assert found == [
            "remembered",
            "remembered",
            '["The shop sells tea and coffee.","Ada likes tea."]',
            '["The shop sells tea and coffee."]',
        ]


@in_event_loop
async def test_who_may_remember(database: Database) -> None:
    model = ScriptedModel([calls("remember", {"text": ""}), calls("remember_for_all", {"text": "x"}), "ok"])
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", tools=["remember"], delegation_policy={})
        assert (await agents.ask("guide", "go")).succeeded
        offered = {tool.name for tool in model.requests[0].tools}
        assert "remember" in offered and not offered & {"remember_for_all", "recall"}
        assert "remember: " in answers(model.requests[1])[-1]
        assert "unknown_tool" in answers(model.requests[2])[-1]


def test_texts_are_found_by_their_words(database: Database) -> None:
    ensure_tables(database)
    for text in ("red fox", "brown fox", "brown bear in a brown wood"):
        database.write(lambda tx, text=text: remember(tx, "p", "agent:a", text))

    def found(query: str, limit: int = 5) -> list[str]:
        return database.read(lambda tx: recall(tx, "p", ["agent:a", "agent:b"], query, limit))

    assert found("Brown FOX")[0] == "brown fox" and len(found("brown fox")) == 3
    assert found("wolf") == [] and len(found("")) == 3 and len(found("fox", 1)) == 1
    database.write(lambda tx: forget(tx, "p", "agent:a"))
    assert found("fox") == [] and found("") == []


def test_words() -> None:
    assert words_of("Ärger, ärger & x1!") == ["ärger", "x1"]
