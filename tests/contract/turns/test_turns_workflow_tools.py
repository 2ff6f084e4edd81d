"""Workflows as tools: a call starts one run, durably, and the turn goes on with what it came to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from afl.kernel.database import Database
from afl.kernel.errors import InputError, NotFoundError
from afl.models import Request, ScriptedModel
from afl.models.messages import ToolResult
from afl.models.scripted import Scripted, calls
from afl.operations.people import approvals
from afl.operations.program.library import publish_source
from afl.operations.run import runs
from afl.operations.turn.workflow_tools import WorkflowTools, workflow_tools
from afl.runtime.entities import RunDefinition
from afl.runtime.stores.sql_store.store import SqlStore
from afl.runtime.task_handlers.handler import Handlers
from afl.turns import TurnRef, open_agents, tool
from afl.turns.agents import Agents
from afl.turns.resources import get_tools

SOURCE = """namespace shop {
    event facet Send(order: String, cents: Long) => (receipt: String)
    /** Pay money back. @param order which @param cents how much */
    workflow Refund(order: String, cents: Long = 100) => (receipt: String) andThen {
        sent = Send($.order, cents = $.cents)
        yield Refund(receipt = sent.receipt)
    }
}"""


def handlers(send: Callable[..., dict[str, Any]]) -> Handlers:
    return Handlers.of({"shop.Send": send})


def receipt(order: str, cents: int) -> dict[str, Any]:
    return {"receipt": f"{order}/{cents}"}


def caller(arguments: dict[str, Any]) -> ScriptedModel:
    def answer(request: Request) -> Scripted:
        last = request.messages[-1].content[-1]
        return last.content if isinstance(last, ToolResult) else calls("Refund", arguments)

    return ScriptedModel(answer)


def with_turn(
    database: Database,
    arguments: dict[str, Any],
    work: Callable[[SqlStore, Agents, TurnRef], Awaitable[None]],
    **options: Any,
) -> None:
    """A turn that calls the workflow, and its host."""

    async def main() -> None:
        store = SqlStore(database)
        publish_source(store, SOURCE)
        refund = tool(workflow="shop.Refund", **options)
        model = caller(arguments)
        async with (
            open_agents(database, model=model) as agents,
            workflow_tools(agents, [refund], store),
        ):
            await agents.define("clerk", tools=[refund])
            await work(store, agents, await agents.send("clerk", "Order 7 came broken."))

    asyncio.run(main())


async def started(store: SqlStore) -> RunDefinition:
    async with asyncio.timeout(10):
        while not (found := store.get_runs()):
            await asyncio.sleep(0.005)
        return found[0]


def test_the_run_has_the_arguments_and_its_outputs_are_the_result(database: Database) -> None:
    async def work(store: SqlStore, agents: Agents, turn: TurnRef) -> None:
        run = await started(store)
        assert run.inputs == {"order": "7", "cents": 5}
        assert run.tags == {"agent": "clerk", "turn": turn.agent_turn_id}
        await asyncio.to_thread(runs.resume, store, run.workflow_id, handlers=handlers(receipt))
        assert (await agents.wait(turn)).text == '{"receipt":"7/5"}'

    with_turn(database, {"order": "7", "cents": 5}, work)


def test_the_model_sees_the_parameters_of_the_workflow(database: Database) -> None:
    async def work(store: SqlStore, agents: Agents, turn: TurnRef) -> None:
        (row,) = database.read(lambda tx: get_tools(tx, "main"))
        assert (row.tool_name, row.description) == ("Refund", "Pay money back.")
        assert row.parameters["required"] == ["order"]
        assert row.parameters["properties"]["cents"] == {"type": "integer", "description": "how much"}

    with_turn(database, {"order": "7"}, work)


def test_however_many_hosts_there_are_a_call_is_one_run(database: Database) -> None:
    async def work(store: SqlStore, agents: Agents, turn: TurnRef) -> None:
        run = await started(store)
        other = WorkflowTools(agents, [tool(workflow="shop.Refund")], store)
        await asyncio.gather(*(other.sweep() for _ in range(3)))
        assert [each.workflow_id for each in store.get_runs()] == [run.workflow_id]
        await asyncio.to_thread(runs.resume, store, run.workflow_id, handlers=handlers(receipt))
        await asyncio.gather(*(other.sweep() for _ in range(3)))
        assert (await agents.wait(turn)).text == '{"receipt":"7/100"}'

    with_turn(database, {"order": "7"}, work)


def test_a_run_that_fails_is_the_error_of_the_tool(database: Database) -> None:
    def broken(order: str, cents: int) -> dict[str, Any]:
        raise ValueError("the bank is closed")

    async def work(store: SqlStore, agents: Agents, turn: TurnRef) -> None:
        run = await started(store)
        await asyncio.to_thread(runs.resume, store, run.workflow_id, handlers=handlers(broken))
        text = (await agents.wait(turn)).text
        assert "the bank is closed" in text and run.workflow_id in text

    with_turn(database, {"order": "7"}, work)


def test_arguments_that_do_not_fit_start_nothing(database: Database) -> None:
    async def work(store: SqlStore, agents: Agents, turn: TurnRef) -> None:
        assert "invalid_arguments" in (await agents.wait(turn)).text
        assert store.get_runs() == []

    with_turn(database, {"order": "7", "cents": "many"}, work)


def test_it_is_started_after_its_approval_with_the_approved_arguments(database: Database) -> None:
    async def work(store: SqlStore, agents: Agents, turn: TurnRef) -> None:
        async with asyncio.timeout(10):
            while not (found := approvals.list_approvals(store)):
                await asyncio.sleep(0.005)
        await WorkflowTools(agents, [tool(workflow="shop.Refund")], store).sweep()
        assert store.get_runs() == []
        approvals.answer(store, found[0].id, {"cents": 1})
        assert (await started(store)).inputs == {"order": "7", "cents": 1}

    with_turn(database, {"order": "7", "cents": 5}, work, approve="finance")


def test_a_workflow_that_nobody_published_is_named(database: Database) -> None:
    async def main() -> None:
        async with open_agents(database) as agents:
            await WorkflowTools(agents, [tool(workflow="shop.Refunds")]).register()

    with pytest.raises(NotFoundError, match=r"shop\.Refunds"):
        asyncio.run(main())


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"after_execution": "never"}, {"approve": lambda given: True}]
)
def test_what_cannot_be_is_told_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        tool(workflow="shop.Refund", **options)
