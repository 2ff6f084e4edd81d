"""Budgets of turns, sessions, agents and days: reserved before a call, on SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.event_loop import in_event_loop

from afl.kernel.database import Database, Query, connect
from afl.kernel.errors import InputError
from afl.kernel.presence.base import Life
from afl.models import Reply, Request, ScriptedModel, Usage
from afl.models.messages import StopReason, Text
from afl.models.model import OnText
from afl.models.scripted import calls
from afl.operations.turn.turn_reasons import explain
from afl.turns import Agents, Delivered, open_agents
from afl.turns.budgets.accounts import BudgetSpent, prune_budgets, reserve, settle, spent_of
from afl.turns.budgets.limits import Account, BudgetLimits, Used, billionths, read_budget, read_limits
from afl.turns.store.tables import ensure_tables

PROJECT = "main"
SMALL = {"max_tokens": 100}


def reply(text: str = "fine", tokens: int = 50) -> Reply:
    return Reply((Text(text),), StopReason.END_TURN, usage=Usage(tokens), model="scripted")


async def ask(agents: Agents, text: str = "q") -> Delivered:
    return await agents.ask("guide", text)


@in_event_loop
async def test_a_turn_out_of_budget_fails_and_says_so(database: Database) -> None:
    async with open_agents(database, model=ScriptedModel(lambda request: reply())) as agents:
        await agents.define("guide", budget={"agent": {"tokens": 250}}, llm_config=SMALL)
        assert [(await ask(agents)).status for _ in range(3)] == ["success"] * 3
        turn = await agents.send("guide", "one more")
        failed = await agents.wait(turn)
        assert (failed.status, failed.error_code) == ("failed", "budget_exceeded")
        assert failed.error.startswith("the budget of 250 tokens of agent guide is used up: 150 spent,")
        why = database.read(lambda tx: explain(tx, PROJECT, turn.agent_turn_id, Life.UNKNOWN, 0))
        assert why.code == "turn-out-of-budget" and failed.error in why.sentence
        assert "larger budget" in why.action


@in_event_loop
async def test_each_kind_of_limit(database: Database) -> None:
    """Steps of a turn; a turn that calls a tool needs two."""

    def look() -> str:
        """Look."""
        return "seen"

    script = ScriptedModel(lambda request: calls("look", {}) if len(request.messages) == 1 else reply())
    async with open_agents(database, model=script) as agents:
        await agents.define("guide", tools=[look], budget={"turn": {"steps": 1}})
        failed = await ask(agents)
        assert failed.error == (
            "the budget of 1 steps of a turn is used up; give the agent a larger budget per turn"
        )
        await agents.define("guide", tools=[look], budget={"turn": {"steps": 2}})
        assert [(await ask(agents)).status for _ in range(2)] == ["success"] * 2
        await agents.define("guide", budget={"day": {"seconds": 0}})
        assert "0 seconds of agent guide for 20" in (await ask(agents)).error
        await agents.define("guide", budget={"day": {"usd": 1}})
        assert "cannot be kept: the price of" in (await ask(agents)).error


@in_event_loop
async def test_a_session_has_a_budget_of_its_own(database: Database) -> None:
    async with open_agents(database, model=ScriptedModel(lambda request: reply())) as agents:
        await agents.define("guide", budget={"session": {"steps": 2}})
        session = agents.session("s", "guide")
        assert [(await session.ask("q")).status for _ in range(3)] == ["success", "success", "failed"]
        assert (await agents.session("t", "guide").ask("q")).status == "success"
        larger = agents.session("s", budget={"steps": 3})
        assert [(await larger.ask("q")).status for _ in range(2)] == ["success", "failed"]


class HangingModel:
    """Answers when it is told to."""

    name = "hanging"

    def __init__(self) -> None:
        self.release = threading.Event()

    def resolve(self, name: str) -> str:
        return name or self.name

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        self.release.wait(20)
        return reply()


@in_event_loop
async def test_a_call_is_cut_when_its_seconds_are_up(database: Database) -> None:
    model = HangingModel()
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", budget={"turn": {"seconds": 0.05}})
        failed = await ask(agents)
        assert failed.error.startswith("the budget of 0.05 seconds of a turn is used up; give the agent")
        model.release.set()


@in_event_loop
async def test_a_call_that_failed_gives_back_what_it_reserved(database: Database) -> None:
    async with open_agents(database, model=ScriptedModel([])) as agents:
        await agents.define("guide", budget={"agent": {"tokens": 200}}, llm_config=SMALL)
        assert [(await ask(agents)).error_code for _ in range(3)] == ["model_error"] * 3
        spent = database.read(lambda tx: spent_of(tx, PROJECT, ["agent:guide", "agent:nobody"]))
        assert (spent["agent:guide"].tokens, spent["agent:guide"].steps, len(spent)) == (0, 3, 1)


@in_event_loop
async def test_without_a_budget_nothing_is_written(database: Database) -> None:
    async with open_agents(database, model=ScriptedModel(["fine"])) as agents:
        await agents.define("guide")
        await ask(agents)
        assert database.read(lambda tx: spent_of(tx, PROJECT, ["agent:guide"])) == {}


# -- accounts -------------------------------------------------------------------------------------------------


@pytest.fixture
def two(database_url: str) -> Iterator[tuple[Database, Database]]:
    """Two connections, as of two processes."""
    with connect(database_url) as one, connect(database_url) as other:
        ensure_tables(one)
        yield one, other


def account(**limits: Any) -> Account:
    return Account("agent:guide", "of agent guide", BudgetLimits(**limits))


def test_two_processes_do_not_pass_a_limit_together(two: tuple[Database, Database]) -> None:
    limited, wanted = [account(tokens=1000)], Used(tokens=300, steps=1)
    refused = []

    def spend(database: Database, name: str) -> None:
        for number in range(4):
            try:
                entry = f"{name}{number}"
                database.write(lambda tx, entry=entry: reserve(tx, "p", limited, entry, "m", wanted))
            except BudgetSpent as error:
                refused.append(str(error))

    threads = [threading.Thread(target=spend, args=each) for each in zip(two, "ab", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 5
    assert set(refused) == {
        "the budget of 1000 tokens of agent guide is used up: 0 spent, 900 reserved, 300 needed; "
        "give the agent a larger budget"
    }


def test_a_reservation_is_settled_or_replaced(two: tuple[Database, Database]) -> None:
    one, other = two
    limited, most = [account(usd=1.0)], Used(usd=billionths(0.6))
    for database in two:  # the second is a worker that took the step over from the first
        database.write(lambda tx: reserve(tx, "p", limited, "step", "m", most))
    with pytest.raises(BudgetSpent, match=r"1.00 USD .* 0.00 spent, 0.60 reserved, 0.60 needed"):
        one.write(lambda tx: reserve(tx, "p", limited, "another", "m", most))
    other.write(lambda tx: settle(tx, "p", limited, "step", Used(billionths(0.1), 10, 1, 5)))
    assert one.write(lambda tx: reserve(tx, "p", limited, "another", "m", most)) is None
    spent = one.read(lambda tx: spent_of(tx, "p", ["agent:guide"]))
    assert spent == {"agent:guide": Used(billionths(0.1), 10, 1, 5)}
    left = one.write(lambda tx: reserve(tx, "p", [account(seconds=1)], "third", "m", Used()))
    assert left == 995


def test_a_budget_that_is_too_small_for_any_call(two: tuple[Database, Database]) -> None:
    small = "the budget of 100 tokens of agent guide is too small for one call, which may need 4216: "
    with pytest.raises(BudgetSpent) as refused:
        two[0].write(lambda tx: reserve(tx, "p", [account(tokens=100)], "s", "m", Used(tokens=4216)))
    assert str(refused.value) == (
        f"{small}max_tokens of llm_config (4096 if not set) is reserved for its reply; "
        "give the agent a larger budget, or set a smaller max_tokens"
    )
    with pytest.raises(BudgetSpent, match=r"of 0.01 USD .* is too small for one call, which may need 0.06: "):
        most = Used(usd=billionths(0.06))
        two[0].write(lambda tx: reserve(tx, "p", [account(usd=0.01)], "s", "m", most))


def test_a_refusal_writes_nothing(two: tuple[Database, Database]) -> None:
    one, _ = two
    limited = [account(tokens=10), Account("turn:t", "of a turn", BudgetLimits(tokens=5))]
    with pytest.raises(BudgetSpent, match="5 tokens of a turn"):
        one.write(lambda tx: reserve(tx, "p", limited, "step", "m", Used(tokens=7)))
    assert one.write(lambda tx: reserve(tx, "p", limited[:1], "other", "m", Used(tokens=7))) is None


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ({"week": {}}, "known are turn, session, agent, day"),
        ({"turn": {"usd": -1}}, "budget: turn: usd is -1"),
        ({"turn": {"euros": 1}}, "budget: turn: .* `euros`; known are usd, tokens, steps, seconds"),
        ({"turn": {"usd": "1"}}, "budget: turn: .*usd"),
        ({"turn": 5}, "budget: turn is 5; expected limits by name"),
        (5, "expected limits by name"),
    ],
)
def test_what_is_no_budget(budget: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_budget(budget)
    assert read_limits({"tokens": 5}) == BudgetLimits(tokens=5)


@in_event_loop
async def test_accounts_of_ended_turns_and_past_days_go(database: Database) -> None:
    async with open_agents(database, model=ScriptedModel(["one", "two"])) as agents:
        budget = {"turn": {"tokens": 99_999}, "day": {"tokens": 99_999}, "agent": {"tokens": 99_999}}
        await agents.define("guide", budget=budget)
        await agents.ask("guide", "q")
        names = Query.of(f"select account from {table(database)} order by account")

        def accounts() -> list[str]:
            return [row["account"].partition(":")[0] for row in database.read(lambda tx: tx.all(names))]

        assert (database.write(prune_budgets), accounts()) == (0, ["agent", "day", "turn"])
        assert (database.write(lambda tx: prune_budgets(tx, -1)), accounts()) == (2, ["agent"])
        assert (await agents.ask("guide", "q")).text == "two"


def table(database: Database) -> str:
    return "state.turn_budgets" if database.dialect == "postgres" else "state_turn_budgets"
