"""What a turn may read and write, and what is told of it: the promises of the protocol, seen from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.turns_office import (
    Barrier,
    Office,
    Place,
    make_unreadable,
    office,
    run,
    told_first,
    until,
    wants,
)

from afl.kernel.database import Transaction
from afl.models import ModelRejected, Request, ScriptedModel, Text
from afl.models.scripted import Scripted
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.boxes import box_info, create_box, read_box
from afl.turns.cardbox.card_store import find_cards, save_cards
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import TurnContext
from afl.turns.intents import SpawnIntent
from afl.turns.message import Message
from afl.turns.model import L0Result, TurnRef
from afl.turns.protocol.subjects import PREFIX
from afl.turns.statuses import BoxKind, CardType
from afl.turns.tools.local import local_tool
from afl.turns.tools.service import ToolService


def add(a: int, b: int) -> int:
    return a + b


def said(request: Request) -> str:
    """Everything a model was sent, as one text."""
    texts = [
        block.text for message in request.messages for block in message.content if isinstance(block, Text)
    ]
    return "\n".join([request.system, *texts])


def put_box(there: Office, words: str, kind: BoxKind = BoxKind.CONTEXT) -> str:
    card = NewCard(CardType.TASK_INSTRUCTION, contents.text(words), "sys.test")

    def work(tx: Transaction) -> str:
        save_cards(tx, there.project, [card])
        return create_box(tx, there.project, kind, [card.card_id])

    return there.database.write(work)


def enqueue(there: Office, tx: Transaction, agent: str, context: str, output: str) -> L0Result:
    boxes = {"context_box_id": context, "output_box_id": output}
    result = there.engine.enqueue(tx, TurnContext.root(there.project, "sys.test"), SpawnIntent(agent, boxes))
    assert result.accepted, result.error
    return result


def turn_of(there: Office, agent: str, result: L0Result) -> TurnRef:
    return TurnRef(there.project, agent, result.payload["agent_turn_id"])


async def begin(there: Office, agent: str, context: str, output: str) -> TurnRef:
    """A turn with these very boxes."""
    return turn_of(
        there, agent, await there.engine.run(lambda tx: enqueue(there, tx, agent, context, output))
    )


async def begin_together(there: Office, agents: Sequence[str], output: str) -> list[TurnRef]:
    """A turn of each, with one box to write: none has written anything when the others are given it."""
    contexts = [put_box(there, agent) for agent in agents]

    def work(tx: Transaction) -> list[L0Result]:
        pairs = zip(agents, contexts, strict=True)
        return [enqueue(there, tx, agent, context, output) for agent, context in pairs]

    results = await there.engine.run(work)
    there.engine.publish(*results)
    return [turn_of(there, agent, result) for agent, result in zip(agents, results, strict=True)]


def empty_box(there: Office) -> str:
    return there.database.write(lambda tx: create_box(tx, there.project, BoxKind.OUTPUT))


def test_only_the_boxes_that_were_given_are_read(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            model = ScriptedModel(lambda request: "noted")
            await there.hire(model)
            for name in ("ada", "bob"):
                await there.agents.define(name)
            put_box(there, "a secret of nobody")
            await there.agents.ask("bob", "a secret of bob")
            await there.agents.ask("ada", "an old secret of ada")
            given = put_box(there, "what is given")
            await there.agents.wait(await begin(there, "ada", given, empty_box(there)))
            last = said(model.requests[-1])
            assert "what is given" in last and "secret" not in last

    run(work)


def test_what_was_written_is_read_back_until_the_box_is_replaced(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            answers = iter(["my first words", "my second words", "my third words"])
            model = ScriptedModel(lambda request: next(answers))
            await there.hire(model)
            await there.agents.define("ada")
            output = empty_box(there)
            for words in ("one", "two"):
                await there.agents.wait(await begin(there, "ada", put_box(there, words), output))
            assert "my first words" in said(model.requests[1])
            await there.agents.wait(await begin(there, "ada", put_box(there, "three"), empty_box(there)))
            assert "my first words" not in said(model.requests[2])

    run(work)


def test_a_turn_writes_to_its_output_box_alone(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(told_first([("add", {"a": 1, "b": 2})]))
            await there.agents.define("ada", tools=[add])
            context, output = put_box(there, "go"), empty_box(there)
            before = there.cards(context)
            turn = await begin(there, "ada", context, output)
            got = await there.agents.wait(turn)
            assert got.output_box_id == output and there.cards(context) == before
            written = there.cards(output)
            assert {card.agent_turn_id for card in written} == {turn.agent_turn_id}
            assert there.count("cardbox.cards", f"agent_turn_id = '{turn.agent_turn_id}'") == len(written)

    run(work)


def test_turns_at_the_same_time_do_not_share_an_output_box(place: Place) -> None:
    gate = Barrier()

    def wait(key: str) -> str:
        gate(key)
        return key

    async def work() -> None:
        async with office(place) as there:
            await there.hire(told_first([("wait", {"key": "x"})]))
            for name in ("ada", "bob"):
                await there.agents.define(name, tools=[wait])
            shared = there.database.write(lambda tx: create_box(tx, there.project, BoxKind.OUTPUT))
            turns = await begin_together(there, ("ada", "bob"), shared)
            await until(lambda: len(gate.calls) == 2)
            gate.open()
            ends = [await there.agents.wait(turn) for turn in turns]
            assert ends[0].output_box_id == shared != ends[1].output_box_id
            fork = there.read(lambda tx: box_info(tx, there.project, ends[1].output_box_id))
            assert fork is not None and fork.parent_box_id == shared
            for turn, end in zip(turns, ends, strict=True):
                assert {card.agent_turn_id for card in there.cards(end.output_box_id)} == {turn.agent_turn_id}

    run(work)


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FIELDS: dict[str, set[str]] = {
    "state": {"agent_id", "agent_turn_id", "status", "turn_epoch", "updated_at", "metadata"},
    "step": {"agent_turn_id", "step_id", "phase", "metadata", "new_card_ids"},
    "task": {"agent_turn_id", "status", "output_box_id", "deliverable_card_id"},
    "wakeup": {"agent_id", "reason"},
}
OPTIONAL: dict[str, set[str]] = {
    "state": {"output_box_id"},
    "task": {"stats", "error", "error_code", "tool_result_card_id"},
    "wakeup": {"inbox_id", "metadata"},
}


def test_what_is_told_has_the_fields_of_the_protocol_and_no_others(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            await there.agents.define("ada", tools=[add])
            turn = await there.agents.send(
                "ada", "go"
            )  # nobody here can take it: workers elsewhere are woken
            await there.hire(told_first([("add", {"a": 1, "b": 2})]))
            await there.agents.wait(turn)
            await until(lambda: there.told("task") and len(there.told("step")) == 4)
            for kind, wanted in FIELDS.items():
                assert there.told(kind), kind
                for payload in there.told(kind):
                    assert wanted <= payload.keys() <= wanted | OPTIONAL.get(kind, set())
            (task,) = there.told("task")
            assert not {"summary", "fields", "links", "text"} & task.keys()

    run(work)


ENDS = ("done", "failed", "stopped", "unreadable", "resumed")


@pytest.mark.parametrize("end", ENDS)
def test_an_agent_that_is_idle_again_is_told_of_in_the_trace_of_its_turn(place: Place, end: str) -> None:
    gate = Barrier()

    def wait() -> str:
        gate("here")
        return "waited"

    def model(request: Request) -> Scripted:
        if end == "failed":
            return ModelRejected("no key")
        return "done" if end == "done" else wants(("wait" if end == "stopped" else "last", {}))

    def idle(there: Office) -> list[Message]:
        told = [each for each in there.received if each.subject.endswith(".state")]
        return [each for each in told if each.payload["status"] == "idle"]

    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            last = local_tool(lambda: "the end", name="last", after_execution="terminate")
            service = ToolService(there.engine, there.project, [last])
            await service.register()
            await service.start()
            await there.hire(model)
            await there.agents.define("ada", tools=[wait, "last"])
            if end == "unreadable":
                await make_unreadable(there.agents, "ada")
            turn = await there.agents.send("ada", "go", traceparent=TRACE)
            if end == "stopped":
                await gate.called()
                await there.agents.stop(turn)
            await there.agents.wait(turn)
            gate.open()
            await until(lambda: idle(there))
            await service.stop()
            (message,) = idle(there)
            assert message.headers["traceparent"].split("-")[1] == TRACE.split("-")[1]
            assert message.headers["CG-Turn-Id"] == turn.agent_turn_id == message.payload["agent_turn_id"]

    run(work)


def test_cards_and_state_are_written_before_they_are_told_of(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            missing: list[str] = []
            seen: list[Message] = []

            async def look(message: Message) -> None:
                seen.append(message)
                ids: list[Any] = [*message.payload.get("new_card_ids", ())]
                ids += [message.payload[name] for name in ("deliverable_card_id",) if name in message.payload]
                found = await there.database.run("read", lambda tx: find_cards(tx, there.project, ids))
                missing.extend(set(ids) - found.keys())
                if message.subject.endswith(".task"):
                    box = message.payload["output_box_id"]
                    cards = await there.database.run("read", lambda tx: read_box(tx, there.project, box))
                    missing.extend(set(ids) - {card.card_id for _, card in cards})

            await there.engine.bus.subscribe([f"{PREFIX}.{there.project}.*.evt.>"], look)
            await there.hire(lambda request: wants(("add", {"a": 1, "b": 2})) if len(seen) < 3 else "done")
            await there.agents.define("ada", tools=[add])
            await there.agents.ask("ada", "go")
            await until(lambda: any(message.subject.endswith(".task") for message in seen))
            assert missing == []

    run(work)
