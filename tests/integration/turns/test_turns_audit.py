"""What is left on the record, and told to people: edges of built-ins, a PMO elsewhere, actions and their end."""

from __future__ import annotations

import pytest
from support.turns_office import Office, Place, office, results_in, run, until, wants

from afl.kernel.database import Transaction
from afl.models import Request
from afl.models.scripted import Scripted
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.card_store import find_cards, save_result
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import TurnContext, context_of_headers
from afl.turns.intents import CommandIntent, ReportIntent, SpawnIntent
from afl.turns.message import Message
from afl.turns.model import L0Result, TurnRef
from afl.turns.protocol.subjects import PREFIX
from afl.turns.resources import Tool, put_tool
from afl.turns.statuses import CardType, EdgePhase, MessageType, Primitive
from afl.turns.store.edges import Edge, find_edge

ANYBODY = {"target_profiles": None, "target_tags": None}
PMO = f"{PREFIX}.{{project_id}}.{{channel_id}}.cmd.sys.pmo.internal.delegate_async"


def delegates(request: Request) -> Scripted:
    """Hands its work on, and says what it was told."""
    if request.system == "child":
        return "grown"
    if answered := results_in(request):
        return answered[0]
    return wants(("delegate_async", {"target_strategy": "new", "target_ref": "kid", "instruction": "grow"}))


async def call_of(there: Office, turn: TurnRef) -> str:
    (call,) = [card.tool_call_id for card in there.output(turn) if card.type == CardType.TOOL_CALL]
    return call


def edge(there: Office, call: str, primitive: Primitive, phase: EdgePhase) -> Edge | None:
    return there.read(lambda tx: find_edge(tx, there.project, call, primitive, phase))


def test_a_built_in_leaves_the_edges_of_a_call(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(delegates)
            await there.agents.define("kid", "child", tools=[])
            await there.agents.define("ada", tools=["delegate_async"], delegation_policy=ANYBODY)
            turn = await there.agents.send("ada", "go")
            assert (await there.agents.wait(turn)).status == "success"
            call = await call_of(there, turn)
            asked = edge(there, call, Primitive.TOOL_CALL, EdgePhase.REQUEST)
            told = edge(there, call, Primitive.REPORT, EdgePhase.RESPONSE)
            assert asked is not None and told is not None
            assert (asked.source_agent_id, asked.metadata["tool_name"]) == ("ada", "delegate_async")
            assert asked.source_agent_turn_id == told.target_agent_turn_id == turn.agent_turn_id
            assert (told.source_agent_id, told.target_agent_id) == ("sys.pmo", "ada")
            assert edge(there, call, Primitive.ENQUEUE, EdgePhase.REQUEST) is not None

    run(work)


def test_a_refused_built_in_is_on_the_record_too(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(delegates)
            await there.agents.define("ada", tools=["delegate_async"], delegation_policy=ANYBODY)
            turn = await there.agents.send("ada", "go")
            assert "no profile" in (await there.agents.wait(turn)).text
            call = await call_of(there, turn)
            assert edge(there, call, Primitive.TOOL_CALL, EdgePhase.REQUEST) is not None
            assert edge(there, call, Primitive.REPORT, EdgePhase.RESPONSE) is not None
            assert edge(there, call, Primitive.ENQUEUE, EdgePhase.REQUEST) is None

    run(work)


def test_a_pmo_elsewhere_serves_a_built_in(place: Place) -> None:
    """A tool registered with a subject of the PMO: the command goes there, and its report comes back."""

    async def work() -> None:
        async with office(place) as there:
            await there.database.run("write", lambda tx: put_tool(tx, _row(there)))
            served: list[str] = []

            async def serve(command: Message) -> None:
                served.append(command.subject)
                await _answered(there, command)

            pattern = f"{PREFIX}.{there.project}.*.cmd.sys.pmo.internal.>"
            serving = await there.engine.bus.consume(f"pmo_{there.project}", [pattern], serve)
            await there.hire(delegates)
            await there.agents.define("ada", tools=["delegate_async"], delegation_policy=ANYBODY)
            got = await there.agents.ask("ada", "go")
            await serving.close()
            assert got.text == "done elsewhere"
            assert [subject.rsplit(".", 2)[1:] for subject in served] == [["internal", "delegate_async"]]

    run(work)


def _row(there: Office) -> Tool:
    return Tool(there.project, "delegate_async", "delegates, elsewhere", {"type": "object"}, PMO)


async def _answered(there: Office, command: Message) -> None:
    context = context_of_headers(command.headers, subject=command.subject)
    named = str(command.payload["tool_call_card_id"])

    def work(tx: Transaction) -> L0Result:
        asked = find_cards(tx, there.project, [named])[named]
        card = NewCard(
            CardType.TOOL_RESULT,
            contents.tool_result_content("success", "suspend", "done elsewhere"),
            "sys.pmo",
            agent_turn_id=asked.agent_turn_id,
            step_id=asked.step_id,
            tool_call_id=asked.tool_call_id,
            function_name=asked.function_name,
        )
        stored = save_result(tx, there.project, card)
        turn = TurnRef(there.project, context.agent_id, context.agent_turn_id)
        payload = {"status": "success", "after_execution": "suspend", "tool_result_card_id": stored.card_id}
        source = context.acting_as("sys.pmo")
        return there.engine.report(tx, source, ReportIntent(turn, payload, asked.tool_call_id))

    assert (await there.engine.run(work)).accepted


def test_a_command_to_the_pmo_is_accepted(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            context = TurnContext.root(there.project, "sys.test")
            payload = {"tool_name": "fork_join", "after_execution": "suspend", "tool_call_card_id": "c1"}
            subject = f"{PREFIX}.{there.project}.public.cmd.sys.pmo.internal.fork_join"
            intent = CommandIntent(subject, payload, "call-1")
            result = await there.engine.run(lambda tx: there.engine.command_intent(tx, context, intent))
            assert result.accepted and result.stored == 1
            asked = edge(there, "call-1", Primitive.TOOL_CALL, EdgePhase.REQUEST)
            assert asked is not None and asked.metadata["subject"] == subject

    run(work)


@pytest.mark.parametrize(("name", "end"), [("greet", "done"), ("stumble", "error")])
def test_an_action_is_acknowledged_at_its_beginning_and_its_end(place: Place, name: str, end: str) -> None:
    def greet() -> str:
        return "hello"

    def stumble() -> str:
        raise ValueError("ouch")

    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            await there.hire(lambda request: "unused")
            await there.agents.define("ada", tools=[greet, stumble])
            turn = await there.agents.act("ada", name, action_id="a1")
            assert turn is not None
            await there.agents.wait(turn)
            acks = await until(lambda: (found := there.told("action_ack"))[1:] and found)
            assert [(ack["action_id"], ack["agent_id"], ack["status"]) for ack in acks] == [
                ("a1", "ada", "accepted"),
                ("a1", "ada", end),
            ]
            (result,) = [card for card in there.output(turn) if card.type == CardType.TOOL_RESULT]
            assert acks[1]["tool_result_card_id"] == result.card_id
            assert acks[1].get("error") == (None if end == "done" else "ouch")

    run(work)


def test_an_action_that_waits_is_acknowledged_when_it_is_done(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            subject = f"{PREFIX}.{{project_id}}.{{channel_id}}.cmd.tool.far.far"
            row = Tool(there.project, "far", "far away", {"type": "object"}, subject)
            await there.database.run("write", lambda tx: put_tool(tx, row))
            pattern = f"{PREFIX}.{there.project}.*.cmd.tool.far.>"
            serving = await there.engine.bus.consume(
                f"far_{there.project}", [pattern], lambda command: _answered(there, command)
            )
            await there.hire(lambda request: "unused")
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.act("ada", "far", action_id="a1")
            assert turn is not None
            assert (await there.agents.wait(turn)).text == "done elsewhere"
            await serving.close()
            acks = await until(lambda: (found := there.told("action_ack"))[1:] and found)
            assert [ack["status"] for ack in acks] == ["accepted", "done"]

    run(work)


def test_a_busy_agent_and_a_bad_action_are_told_of(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            await there.agents.define("ada", tools=[])
            await there.agents.send("ada", "go")  # nobody works: it stays dispatched
            before = there.count("state.agent_inbox")
            assert await there.agents.act("ada", "greet", action_id="a1") is None
            payload = {"action_id": "a2", "tool_name": "greet", "surprise": 1}
            intent = SpawnIntent("ada", payload, MessageType.UI_ACTION)
            context = TurnContext.root(there.project, "sys.test")
            refused = await there.engine.run(lambda tx: there.engine.enqueue(tx, context, intent))
            assert not refused.accepted and there.count("state.agent_inbox") == before
            acks = await until(lambda: (found := there.told("action_ack"))[1:] and found)
            assert [(ack["action_id"], ack["status"]) for ack in acks] == [("a1", "busy"), ("a2", "rejected")]
            assert acks[0]["error_code"] == "agent_busy" and acks[1]["error_code"] == "forbidden_field"

    run(work)
