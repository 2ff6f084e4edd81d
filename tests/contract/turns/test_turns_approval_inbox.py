"""The inbox of approvals has the tool calls of turns beside the steps of workflows, and answers them the same way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest

from afl.kernel.database import Database, Transaction, connect
from afl.kernel.errors import InputError
from afl.kernel.presence.base import Life
from afl.kernel.settings import load_settings
from afl.language import compile_source
from afl.models import ScriptedModel
from afl.models.scripted import calls
from afl.operations.metrics import metrics
from afl.operations.people import approvals
from afl.operations.people.answer_preview import preview_answers
from afl.operations.people.forms import FormError
from afl.operations.people.questions import Approval, ApprovalClosed
from afl.operations.program.sources import choose_workflow
from afl.operations.program.submission import submit
from afl.operations.run import runs
from afl.operations.run.overview import overview
from afl.operations.run.run_summary import badges
from afl.operations.turn.turn_reasons import explain
from afl.operations.turn.turn_view import CardView, view
from afl.runtime.stores.sql_store.store import SqlStore
from afl.runtime.task_handlers.handler import Handlers
from afl.turns import TurnRef, open_agents, tool
from afl.turns.agents import Agents
from afl.turns.tools.local import LocalTool

SOURCE = """namespace pay {
    event facet Approve(amount: Double) => (ok: Boolean) with Human("finance")
    workflow Paid(amount: Double) => (ok: Boolean) andThen { a = Approve($.amount) yield Paid(ok = a.ok) }
}"""
paid: list[tuple[str, int]] = []


@tool(approve="finance", approve_timeout=3600)
def pay(to: str, cents: int, note: str | None = None) -> str:
    """Pay somebody.

    Args:
        to: Who gets it.
        cents: How much.
        note: What for.
    """
    paid.append((to, cents))
    return "paid"


@pytest.fixture
def store(database: Database) -> Iterator[SqlStore]:
    paid.clear()
    yield SqlStore(database)


def shown_cards(tx: Transaction, turn: TurnRef) -> list[CardView]:
    return view(tx, "main", turn.agent_turn_id).cards


def ids(found: list[Approval]) -> list[str]:
    return [each.id for each in found]


def asking(
    store: SqlStore,
    work: Callable[[Agents, TurnRef, Approval], Awaitable[None]],
    pay: LocalTool = pay,
) -> None:
    """A turn that waits for an approval, and what a test does then."""

    async def main() -> None:
        model = ScriptedModel([calls("pay", {"to": "Ada", "cents": 700}), "Done."])
        async with open_agents(store.database, model=model) as agents:
            await agents.define("clerk", tools=[pay])
            turn = await agents.send("clerk", "Pay Ada.")
            async with asyncio.timeout(10):
                while not (found := approvals.list_approvals(store)):
                    await asyncio.sleep(0.005)
            await work(agents, turn, found[0])

    asyncio.run(main())


def test_a_call_is_listed_shown_and_approved_with_other_arguments(store: SqlStore) -> None:
    async def work(agents: Agents, turn: TurnRef, question: Approval) -> None:
        assert (question.group, question.turn, question.agent) == ("finance", turn.agent_turn_id, "clerk")
        assert question.given == {"to": "Ada", "cents": 700} and question.expires > question.created
        shown = approvals.show_approval(store, question.id[:20])
        assert [(field.name, field.default) for field in shown.form.fields] == [
            ("to", "Ada"),
            ("cents", 700),
            ("note", None),
        ]
        done = approvals.answer(store, question.id, {"cents": 5}, by="grace")
        assert (done.turn, done.values) == (turn.agent_turn_id, {"to": "Ada", "cents": 5})
        assert (await agents.wait(turn)).text == "Done."

        texts = [card.text for card in store.database.read(lambda tx: shown_cards(tx, turn))]
        assert "approved by grace, with other arguments" in texts

    asking(store, work)
    assert paid == [("Ada", 5)]
    (told,) = approvals.list_answered(store)
    assert (told.state, told.answered_by, approvals.list_approvals(store)) == ("answered", "grace", [])


def test_what_does_not_fit_changes_nothing_and_the_second_answer_is_told_of_the_first(
    store: SqlStore,
) -> None:
    async def work(agents: Agents, turn: TurnRef, question: Approval) -> None:
        with pytest.raises(FormError):
            approvals.answer(store, question.id, {"sum": 1})
        with pytest.raises(FormError):
            approvals.answer(store, question.id, {"cents": "much"})
        assert approvals.reject(store, turn.agent_turn_id, "not now", by="grace").rejected
        for name in (question.id, turn.agent_turn_id):
            with pytest.raises(ApprovalClosed, match="was rejected by grace already"):
                approvals.answer(store, name, by="ada")
        assert approvals.show_approval(store, turn.agent_turn_id).approval.answered_by == "grace"
        await agents.wait(turn)

    asking(store, work)
    assert paid == []


def test_a_call_whose_schema_cannot_be_used_can_be_answered(store: SqlStore) -> None:
    broken = {**pay.tool.input_schema["properties"], "cents": {"$ref": "#/$defs/none"}}
    schema = {**pay.tool.input_schema, "properties": broken}
    other = replace(pay, python=replace(pay.python, tool=replace(pay.tool, input_schema=schema)))

    async def work(agents: Agents, turn: TurnRef, question: Approval) -> None:
        approvals.answer(store, question.id, {"cents": 5}, by="grace")
        assert (await agents.wait(turn)).text == "Done."

    asking(store, work, other)
    assert paid == [("Ada", 5)]


def test_the_preview_shows_the_arguments(store: SqlStore) -> None:
    async def work(agents: Agents, turn: TurnRef, question: Approval) -> None:
        (planned,) = preview_answers(store, [question.id], {"note": "tea"})
        assert planned.values == {"to": "Ada", "cents": 700, "note": "tea"} and not planned.problem
        await agents.stop(turn)
        await agents.wait(turn)
        (planned,) = preview_answers(store, [question.id])
        assert "was canceled already" in planned.problem

    asking(store, work)


def test_it_stands_beside_the_steps_of_workflows(store: SqlStore) -> None:
    async def work(agents: Agents, turn: TurnRef, question: Approval) -> None:
        program = choose_workflow(compile_source(SOURCE), "pay.Paid")
        run = submit(store, program, {"amount": 7.0}).run
        await asyncio.to_thread(runs.resume, store, run, handlers=Handlers())
        call, step = approvals.list_approvals(store, group="finance")
        assert (call.id, step.run, badges(store).approvals) == (question.id, run, 2)
        assert overview(store).queue.approvals == 2
        settings = load_settings({"store": "memory://", "redis": "redis://127.0.0.1:9/0"}, environ={})
        assert 'afl_approvals_waiting{group="finance"} 2\n' in metrics(store, settings)
        assert ids(approvals.list_approvals(store, after=call.id)) == [step.id]
        assert approvals.list_approvals(store, after=step.id) == []
        assert ids(approvals.list_approvals(store, limit=1)) == [call.id]
        assert ids(approvals.list_approvals(store, run=run)) == [step.id]
        assert ids(approvals.list_approvals(store, run=turn.agent_turn_id)) == [call.id]
        with pytest.raises(InputError, match="several approvals start with 0"):
            approvals.show_approval(store, "0")

    asking(store, work)


def test_why_says_who_is_asked(store: SqlStore) -> None:
    async def work(agents: Agents, turn: TurnRef, question: Approval) -> None:
        now = store.database.now()
        found = store.database.read(lambda tx: explain(tx, "main", turn.agent_turn_id, Life.UNKNOWN, now))
        assert found.code == "turn-waits-for-approval" and question.id in found.action
        assert "someone in finance to approve a call of pay" in found.sentence

    asking(store, work)


def test_a_store_without_turns_has_none() -> None:
    with connect("memory://") as database:
        assert approvals.list_approvals(SqlStore(database)) == []
