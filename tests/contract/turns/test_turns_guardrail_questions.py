"""Guardrails that have a person decide: the turn waits in the inbox of approvals, and goes on as that person says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from support.event_loop import in_event_loop

from afl.kernel.database import Database
from afl.kernel.errors import InputError
from afl.kernel.presence import Life
from afl.models import Request, ScriptedModel
from afl.models.messages import Text, ToolResult
from afl.models.scripted import calls
from afl.operations.people.tool_calls import call_form, checked_arguments
from afl.operations.turn.turn_reasons import explain
from afl.turns import Agents, Ask, Delivered, EventKind, Guardrails, Refuse, TurnRef, open_agents, tool
from afl.turns.store.approvals import ToolApproval, open_approvals
from afl.turns.tools.answering import approve_call, reject_call
from afl.turns.watchdog import Watchdog


@dataclass
class Offer:
    """What a turn comes to."""

    cents: int


def said(request: Request) -> list[str]:
    return [
        block.text if isinstance(block, Text) else block.content
        for message in request.messages
        for block in message.content
        if isinstance(block, (Text, ToolResult))
    ]


def asks_about_ships(text: Any) -> Ask | None:
    return Ask("legal", "ships are delicate") if "ship" in str(text) else None


def asks_again(text: Any) -> Ask | None:
    return Ask("legal", "ships are delicate", retry=True) if "ship" in str(text) else None


def never_boats(text: str) -> Refuse | None:
    return Refuse("no boats") if "boat" in text else None


def why(agents: Agents, turn: TurnRef) -> str:
    store = agents.engine.database
    now = store.now()
    found = store.read(lambda tx: explain(tx, agents.project, turn.agent_turn_id, Life.ALIVE, now))
    return found.sentence


async def asked(agents: Agents) -> ToolApproval:
    """The question, once there is one."""
    async with asyncio.timeout(10):
        while not (found := agents.engine.database.read(lambda tx: open_approvals(tx))):
            await asyncio.sleep(0.005)
    return found[0]


async def answered(
    agents: Agents, turn: TurnRef, change: Mapping[str, Any] | None = None, *, reject: str = ""
) -> ToolApproval:
    """Answer the question of a turn: approve it, with changes, or reject it."""
    question = await asked(agents)
    assert question.agent_turn_id == turn.agent_turn_id
    values = checked_arguments(question, change or {})
    done = agents.engine.database.write(
        lambda tx: (
            reject_call(tx, question, reject, "grace")
            if reject
            else approve_call(tx, question, values, "grace")
        )
    )
    agents.engine.tell(*done.signals)
    return question


@in_event_loop
async def test_input_waits_for_a_person(database: Database) -> None:
    model = ScriptedModel(["one", "two", "three"])
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", guardrails=Guardrails(input=[asks_about_ships, never_boats]))
        session = agents.session("s", "guide")
        turn = await session.send("A ship?")
        question = await asked(agents)
        assert (question.group_name, question.description) == ("legal", "ships are delicate")
        assert question.arguments == {"text": "A ship?"} and model.requests == []
        assert "someone in legal to approve what it was asked" in why(agents, turn)
        assert [field.name for field in call_form(question).fields] == ["text"]
        await answered(agents, turn)
        assert (await agents.wait(turn)).text == "one"
        turn = await session.send("Another ship?")
        await answered(agents, turn, {"text": "Another car?"})
        assert (await agents.wait(turn)).text == "two"
        turn = await session.send("My ship?")
        await answered(agents, turn, reject="ask a lawyer")
        refused = await agents.wait(turn)
        assert (refused.error_code, refused.error) == ("input_refused", "grace rejected this: ask a lawyer")
        assert (await session.ask("A ship or a boat?")).error == "no boats"  # a refusal needs no person
        await session.ask("Go on.")
        assert said(model.requests[-1])[:5] == [
            "A ship?",
            "one",
            "Another car?",
            "two",
            "(This was refused: grace rejected this: ask a lawyer)",
        ]


@in_event_loop
async def test_an_answer_waits_for_a_person(database: Database) -> None:
    model = ScriptedModel(["A ship.", "My ship.", "Their ship.", "fine"])
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", guardrails=Guardrails(output=[asks_about_ships]))
        session = agents.session("s", "guide")
        turn = await session.send("1")
        question = await asked(agents)
        events = [event async for event in _until_asked(agents, turn)]
        assert (events[-1].tool, events[-1].call) == ("guardrail:output", question.approval_id)
        assert not any("ship" in event.text for event in events)
        assert "to approve its answer" in why(agents, turn)
        await answered(agents, turn)
        assert (await agents.wait(turn)).text == "A ship."
        turn = await session.send("2")
        await answered(agents, turn, {"text": "My car."})
        assert (await agents.wait(turn)).text == "My car."
        turn = await session.send("3")
        await answered(agents, turn, reject="no")
        refused = await agents.wait(turn)
        assert (refused.error_code, refused.error) == ("output_refused", "grace rejected this: no")
        await session.ask("4")
        assert said(model.requests[-1])[:4] == ["1", "A ship.", "2", "My car."]
        assert "Their" not in str(model.requests[-1].messages)


async def _until_asked(agents: Agents, turn: TurnRef) -> Any:
    async for event in agents.events(turn):
        yield event
        if event.kind == EventKind.APPROVAL_NEEDED:
            return


@in_event_loop
async def test_a_model_reads_why_its_answer_was_rejected(database: Database) -> None:
    model = ScriptedModel(["A ship.", "A car."])
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", guardrails=Guardrails(output=[asks_again]))
        turn = await agents.send("guide", "q")
        await answered(agents, turn, reject="too wet")
        assert (await agents.wait(turn)).text == "A car."
        assert "grace rejected this: too wet. Answer again." in said(model.requests[1])[-1]


def many(result: Any) -> Ask | None:
    return Ask(reason="much", retry=True) if result["cents"] > 100 else None


@pytest.mark.parametrize(
    ("change", "reject", "cents"), [(None, "", 500), ({"result": {"cents": 7}}, "", 7), (None, "less", 100)]
)
@in_event_loop
async def test_a_result_waits_for_a_person(
    database: Database, change: Mapping[str, Any] | None, reject: str, cents: int
) -> None:
    model = ScriptedModel([calls("submit_result", {"result": {"cents": n}}) for n in (500, 100)])
    async with open_agents(database, model=model) as agents:
        await agents.define("seller", result=Offer, guardrails=Guardrails(output=[many]))
        turn = await agents.send("seller", "q")
        question = await answered(agents, turn, change, reject=reject)
        assert question.arguments == {"result": {"cents": 500}}
        delivered = await agents.wait(turn)
        assert delivered.data == {"cents": cents}
    assert len(model.requests) == (2 if reject else 1)


def large(name: str, arguments: Mapping[str, Any]) -> Ask | None:
    return Ask("finance", f"{name} of much") if arguments.get("cents", 0) > 100 else None


class Shop:
    def __init__(self) -> None:
        self.paid: list[int] = []

        def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return f"paid {cents}"

        @tool(approve="boss")
        def give(cents: int) -> str:
            """Give."""
            return f"gave {cents}"

        self.tools: list[Callable[..., Any] | Any] = [pay, give]


async def _pays(agents: Agents, shop: Shop) -> TurnRef:
    await agents.define("clerk", tools=shop.tools, guardrails=Guardrails(tools=[large]))
    return await agents.send("clerk", "Pay.")


@in_event_loop
async def test_a_call_waits_for_a_person(database: Database) -> None:
    script = [
        calls("pay", {"cents": 7}),
        calls("pay", {"cents": 700}),
        calls("give", {"cents": 700}),
        "Done.",
    ]
    model, shop = ScriptedModel(script), Shop()
    async with open_agents(database, model=model) as agents:
        turn = await _pays(agents, shop)
        question = await answered(agents, turn, {"cents": 5})
        assert (question.group_name, question.description) == ("finance", "pay of much\n\nPay.")
        async with asyncio.timeout(10):
            while (second := await asked(agents)).approval_id == question.approval_id:
                await asyncio.sleep(0.005)
        assert (second.group_name, second.tool_name) == ("boss", "give")  # the tool's own rule
        await answered(agents, turn, reject="never")
        assert (await agents.wait(turn)).text == "Done."
    assert shop.paid == [7, 5]
    assert "grace rejected this call: never" in said(model.requests[-1])[-1]


@in_event_loop
async def test_nobody_is_asked_about_a_built_in(database: Database) -> None:
    def everything(name: str, arguments: Mapping[str, Any]) -> Ask:
        return Ask()

    model = ScriptedModel([calls("remember", {"text": "x"}), "Done."])
    async with open_agents(database, model=model) as agents:
        rails = Guardrails(tools=[everything])
        await agents.define("guide", allowed_internal_tools=["remember"], guardrails=rails)
        assert (await agents.ask("guide", "q")).text == "Done."
        assert "nobody can be asked about remember" in said(model.requests[-1])[-1]


@in_event_loop
async def test_nobody_answers_in_time(database: Database) -> None:
    def soon(text: str) -> Ask:
        return Ask("legal", seconds=0.001)

    async with open_agents(database, model=ScriptedModel(["never said"])) as agents:
        await agents.define("guide", guardrails=Guardrails(input=[soon]))
        turn = await agents.send("guide", "q")
        waiting = asyncio.create_task(agents.wait(turn))
        watchdog = Watchdog(agents.engine, "w", ["agents"])
        async with asyncio.timeout(10):
            while not waiting.done():
                await watchdog.sweep()
                await asyncio.sleep(0.005)
        delivered: Delivered = await waiting
        assert delivered.error_code == "input_refused"
        assert delivered.error == "nobody in legal approved this in 0.001 s"


def test_a_question_names_a_group_and_a_time_to_come() -> None:
    with pytest.raises(InputError, match="group"):
        Ask("")
    with pytest.raises(InputError, match="more than 0"):
        Ask(seconds=0)
