"""Steps that call functions of the worker and tools of other processes at once: all of them are at work together."""

from __future__ import annotations

from typing import Any

from support.turns_office import (
    Barrier,
    Office,
    Place,
    lose,
    office,
    results_in,
    run,
    told_first,
    until,
    wants,
)

from afl.kernel.database import Transaction
from afl.models import Request
from afl.models.scripted import Scripted
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.card_store import save_result
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import context_of_head, context_of_headers
from afl.turns.intents import ReportIntent
from afl.turns.model import L0Result, Limits, TurnRef, WaitingTool
from afl.turns.protocol.subjects import PREFIX
from afl.turns.resources import Tool, put_tool
from afl.turns.statuses import AfterExecution, CardType, HeadStatus, StepStatus
from afl.turns.store import heads
from afl.turns.store.edges import edges_of_turn
from afl.turns.store.steps import Step, read_steps

BOTH: list[tuple[str, dict[str, Any]]] = [("near", {"key": "k"}), ("far", {"n": 1})]


async def open_office(there: Office, near: Barrier, after: str = "suspend") -> TurnRef:
    """An agent that calls a function here and a tool that the test answers for."""
    subject = f"{PREFIX}.{{project_id}}.{{channel_id}}.cmd.tool.far.far"
    row = Tool(there.project, "far", "far away", {"type": "object"}, subject, AfterExecution(after))
    await there.database.run("write", lambda tx: put_tool(tx, row))

    def near_tool(key: str) -> str:
        near(key)
        return "here"

    near_tool.__name__ = "near"
    await there.agents.define("ada", tools=[near_tool, "far"])
    return await there.agents.send("ada", "go")


async def awaited(there: Office) -> WaitingTool:
    """The call that was sent."""

    def look() -> list[WaitingTool]:
        head = there.head("ada")
        return there.read(lambda tx: heads.read_waiting(tx, head))

    return (await until(look))[0]


async def answer(there: Office, wait: WaitingTool, value: Any, after: str = "suspend") -> L0Result:
    card = NewCard(
        CardType.TOOL_RESULT,
        contents.tool_result_content("success", after, value),
        "tool.far",
        agent_turn_id=wait.agent_turn_id,
        step_id=wait.step_id,
        tool_call_id=wait.tool_call_id,
        function_name="far",
    )
    source = context_of_head(there.head("ada")).acting_as("tool.far")
    turn = TurnRef(there.project, "ada", wait.agent_turn_id)

    def work(tx: Transaction) -> L0Result:
        stored = save_result(tx, there.project, card)
        payload = {"status": "success", "after_execution": after, "tool_result_card_id": stored.card_id}
        return there.engine.report(tx, source, ReportIntent(turn, payload, wait.tool_call_id))

    return await there.engine.run(work)


def steps_of(there: Office, turn: TurnRef) -> list[Step]:
    return there.read(lambda tx: read_steps(tx, there.project, turn.agent_turn_id))


def test_what_others_answer_is_sent_while_functions_run_here(place: Place) -> None:
    async def work() -> None:
        near = Barrier()
        async with office(place) as there:
            await there.overhear()
            await there.hire(told_first(BOTH))
            turn = await open_office(there, near)
            await near.called()
            await until(lambda: [m for m in there.received if ".cmd.tool.far." in m.subject])
            wait = await awaited(there)
            assert there.head("ada").status is HeadStatus.RUNNING
            revision = there.head("ada").revision
            assert (await answer(there, wait, "there")).accepted
            await until(lambda: there.count("state.turn_waiting_tools", "wait_status = 'applied'"))
            assert there.head("ada").revision == revision
            assert not there.count("state.agent_inbox", "retry_count > 0")
            near.open()
            got = await there.agents.wait(turn)
            assert got.text == "here | there"
            first, second = steps_of(there, turn)
            assert (first.status, second.status) == (StepStatus.COMPLETED, StepStatus.COMPLETED)
            assert first.metadata["llm_usage"]["input_tokens"] == 100 and len(first.tool_call_ids) == 2
            assert not there.count("state.turn_waiting_tools")
            cards = [card.card_id for card in there.output(turn)]
            assert len(cards) == len(set(cards))

    run(work)


def test_the_turn_suspends_on_what_is_missing(place: Place) -> None:
    async def work() -> None:
        near = Barrier()
        near.open()
        async with office(place) as there:
            await there.hire(told_first(BOTH))
            turn = await open_office(there, near)
            await until(lambda: there.head("ada").status is HeadStatus.SUSPENDED)
            head = there.head("ada")
            assert head.waiting_tool_count == 1 and head.resume_deadline is not None
            assert [step.status for step in steps_of(there, turn)] == [StepStatus.SUSPENDED]
            await answer(there, await awaited(there), "there")
            assert (await there.agents.wait(turn)).text == "here | there"
            assert [step.status for step in steps_of(there, turn)] == [StepStatus.COMPLETED] * 2
            edges = there.read(lambda tx: edges_of_turn(tx, there.project, turn.agent_turn_id))
            assert [edge.primitive for edge in edges if edge.edge_phase == "request"] == ["tool_call"]

    run(work)


def test_an_early_result_may_end_the_turn(place: Place) -> None:
    async def work() -> None:
        near = Barrier()
        async with office(place) as there:
            await there.hire(told_first(BOTH))
            turn = await open_office(there, near, "terminate")
            await near.called()
            await answer(there, await awaited(there), "the end", "terminate")
            await until(lambda: there.count("state.turn_waiting_tools", "wait_status = 'applied'"))
            near.open()
            assert (await there.agents.wait(turn)).text == "the end"
            assert not there.count("state.turn_waiting_tools")

    run(work)


def test_a_taken_over_turn_still_waits_for_what_was_sent(place: Place) -> None:
    """The commands are not given again, and an answer that comes after the takeover counts."""

    async def work() -> None:
        near = Barrier()
        async with office(place, Limits(lease_ms=150)) as there:
            first = await there.hire(told_first(BOTH))
            turn = await open_office(there, near)
            await near.called()
            wait = await awaited(there)
            await lose(first)
            near.open()
            second = await there.hire(told_first(BOTH))

            async def taken() -> bool:
                await second.watch()
                return there.head("ada").turn_epoch == 2

            while not await taken():
                continue
            await until(lambda: there.head("ada").status is HeadStatus.SUSPENDED)
            assert there.count("state.outbox", "kind = 'cmd'") == 1
            assert (await awaited(there)).tool_call_id == wait.tool_call_id
            assert (await answer(there, wait, "there")).accepted
            assert (await there.agents.wait(turn)).text == "here | there"
            statuses = [step.status for step in steps_of(there, turn)]
            assert statuses == [StepStatus.COMPLETED] * 2
            assert not there.count("state.turn_waiting_tools")

    run(work)


def test_a_stop_forgets_what_was_sent(place: Place) -> None:
    async def work() -> None:
        near = Barrier()
        async with office(place) as there:
            await there.hire(told_first(BOTH))
            turn = await open_office(there, near)
            await near.called()
            wait = await awaited(there)
            await there.agents.stop(turn, "enough")
            assert (await there.agents.wait(turn)).status == "canceled"
            near.open()
            assert not there.count("state.turn_waiting_tools")
            late = await answer_late(there, turn, wait)
            assert late.accepted and late.payload["late"]

    run(work)


async def answer_late(there: Office, turn: TurnRef, wait: WaitingTool) -> L0Result:
    card = NewCard(
        CardType.TOOL_RESULT,
        contents.tool_result_content("success", "suspend", "x"),
        "tool.far",
        agent_turn_id=wait.agent_turn_id,
        step_id=wait.step_id,
        tool_call_id=wait.tool_call_id,
        function_name="far",
    )
    edges = there.read(lambda tx: edges_of_turn(tx, there.project, turn.agent_turn_id))
    from_headers = edges[0].metadata["cg_ctx"]

    def work(tx: Transaction) -> L0Result:
        save_result(tx, there.project, card)
        payload = {"status": "success", "after_execution": "suspend", "tool_result_card_id": card.card_id}
        source = context_of_headers(from_headers).acting_as("tool.far")
        return there.engine.report(tx, source, ReportIntent(turn, payload, wait.tool_call_id))

    return await there.engine.run(work)


def test_children_of_a_fork_work_beside_functions(place: Place) -> None:
    async def work() -> None:
        near = Barrier()

        def model(request: Request) -> Scripted:
            if request.system == "child":
                return "grown"
            if answered := results_in(request):
                return f"{len(answered)} results"
            tasks = [{"target_strategy": "new", "target_ref": "kid", "instruction": "grow"}]
            return wants(("near", {"key": "k"}), ("fork_join", {"tasks": tasks}))

        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("kid", "child", tools=[])

            def near_tool(key: str) -> str:
                near(key)
                return "here"

            near_tool.__name__ = "near"
            policy = {"target_profiles": None, "target_tags": None}
            await there.agents.define("ada", tools=[near_tool, "fork_join"], delegation_policy=policy)
            turn = await there.agents.send("ada", "go")
            await near.called()
            await until(lambda: there.count("state.turn_waiting_tools", "wait_status = 'applied'"))
            near.open()
            assert (await there.agents.wait(turn)).text == "2 results"
            assert there.count("state.execution_edges", "primitive = 'join'") == 2
            assert there.count("state.execution_edges", "primitive = 'tool_call'") == 1

    run(work)
