"""Sessions: conversations with ids, whose turns follow each other; on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.event_loop import in_event_loop

from afl.kernel.database import Database
from afl.kernel.errors import InputError
from afl.models import ModelError, Reply, Request, ScriptedModel
from afl.models.messages import StopReason, Text
from afl.models.model import OnText
from afl.turns import Agents, open_agents
from afl.turns.sessions.records import actor_of
from afl.turns.statuses import CardType
from afl.turns.store.turn_queries import latest_turns


def said(request: Request) -> list[str]:
    """The texts of a request."""
    return [
        block.text for message in request.messages for block in message.content if isinstance(block, Text)
    ]


def echo(request: Request) -> str:
    return f"re: {said(request)[-1]}"


@asynccontextmanager
async def guide(
    database: Database, answer: Callable[[Request], Reply | str] = echo, **profile: Any
) -> AsyncIterator[tuple[Agents, ScriptedModel]]:
    model = ScriptedModel(answer)
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", "You help.", **profile)
        yield agents, model


@in_event_loop
async def test_each_turn_continues_the_one_before(database: Database) -> None:
    async with guide(database) as (agents, model):
        assert (await agents.session("ada@example.com", "guide").ask("one")).text == "re: one"
        reopened = agents.session("ada@example.com")
        assert (await reopened.ask("two")).text == "re: two"
        assert said(model.requests[-1]) == ["one", "re: one", "two"]
        assert (await agents.session("bob", "guide").ask("three")).text == "re: three"
        assert said(model.requests[-1]) == ["three"]
        assert [(each.session_id, each.turns) for each in await agents.sessions()] == [
            ("bob", 1),
            ("ada@example.com", 2),
        ]


@in_event_loop
async def test_concurrent_sends_queue_in_order(database: Database) -> None:
    async with guide(database) as (agents, model):
        session = agents.session("s", "guide")
        sent = [await session.send(f"q{number}") for number in range(4)]
        await asyncio.gather(*(agents.wait(turn) for turn in sent))
        assert said(model.requests[-1]) == ["q0", "re: q0", "q1", "re: q1", "q2", "re: q2", "q3"]
        assert [turn.agent_turn_id for turn in await session.turns()] == [turn.agent_turn_id for turn in sent]


@in_event_loop
async def test_many_senders_of_one_session(database: Database) -> None:
    async with guide(database) as (agents, model):
        asked = [agents.session("s", "guide").ask(f"q{number}") for number in range(5)]
        await asyncio.gather(*asked)
        last = said(model.requests[-1])
        assert len(last) == 9 and sorted(last[::2]) == [f"q{number}" for number in range(5)]
        assert last[1::2] == [f"re: {question}" for question in last[:-1:2]]


class MeetingModel:
    """Answers when as many calls are under way as it was made for."""

    name = "meeting"

    def __init__(self, calls: int) -> None:
        self._barrier = threading.Barrier(calls, timeout=20)

    def resolve(self, name: str) -> str:
        return name or self.name

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        self._barrier.wait()
        return Reply((Text(echo(request)),), StopReason.END_TURN)


@in_event_loop
async def test_sessions_run_side_by_side(database: Database) -> None:
    """Two sessions of one agent: neither model call ends before the other one has begun."""
    async with open_agents(database, model=MeetingModel(2)) as agents:
        await agents.define("guide", "You help.")
        done = await asyncio.gather(*(agents.session(name, "guide").ask(name) for name in ("a", "b")))
        assert [each.text for each in done] == ["re: a", "re: b"]


@in_event_loop
async def test_the_same_correlation_is_the_same_turn(database: Database) -> None:
    async with guide(database) as (agents, _):
        session = agents.session("s", "guide")
        first = await session.send("one", correlation_id="x")
        assert await session.send("one", correlation_id="x") == first
        assert len(await session.turns()) == 1


@in_event_loop
async def test_a_fork_continues_from_its_turn(database: Database) -> None:
    async with guide(database) as (agents, model):
        session = agents.session("s", "guide")
        for text in ("one", "two", "three"):
            await session.ask(text)
        first = (await session.turns())[0].agent_turn_id
        fork = await session.fork("f", after=first)
        assert (await fork.ask("other")).text == "re: other"
        assert said(model.requests[-1]) == ["one", "re: one", "other"]
        await session.delete()
        await fork.ask("more")
        assert said(model.requests[-1]) == ["one", "re: one", "other", "re: other", "more"]
        assert [each.session_id for each in await agents.sessions()] == ["f"]
        with pytest.raises(InputError, match="has no session 's'"):
            await session.turns()


@in_event_loop
async def test_what_a_fork_refuses(database: Database) -> None:
    async with guide(database) as (agents, _):
        session = agents.session("s", "guide")
        await session.ask("one")
        with pytest.raises(InputError, match="has no turn 'turn_nobody'"):
            await session.fork(after="turn_nobody")
        with pytest.raises(InputError, match="there is a session 's' already"):
            await session.fork("s")
    async with open_agents(database) as agents:  # nobody works here
        turn = await agents.session("s").send("two")
        with pytest.raises(InputError, match=f"turn {turn.agent_turn_id} is not over"):
            await agents.session("s").fork()
        with pytest.raises(InputError, match="is not over; stop it first"):
            await agents.session("s").delete()


@in_event_loop
async def test_a_deleted_session_leaves_nothing(database: Database) -> None:
    async with guide(database) as (agents, model):
        session = agents.session("s", "guide")
        turn = await session.send("my secret")
        await agents.wait(turn)
        await session.delete()
        assert database.read(lambda tx: latest_turns(tx, agents.project)) == []
        await agents.session("s", "guide").ask("again")
        assert said(model.requests[-1]) == ["again"]


@in_event_loop
async def test_whose_session_it_is(database: Database) -> None:
    async with guide(database) as (agents, _):
        with pytest.raises(InputError, match="has no session 's'"):
            await agents.session("s").send("one")
        with pytest.raises(InputError, match="has no agent 'nobody'"):
            await agents.session("s", "nobody").send("one")
        await agents.session("s", "guide").ask("one")
        await agents.define("clerk", "You add.")
        with pytest.raises(InputError, match="session 's' is one of guide, not of clerk"):
            await agents.session("s", "clerk").send("two")
        with pytest.raises(InputError, match="1 to 512 characters"):
            agents.session("")


@in_event_loop
async def test_a_session_follows_its_agents_definition(database: Database) -> None:
    async with guide(database) as (agents, model):
        await agents.session("s", "guide").ask("one")
        await agents.define("guide", "You help more.")
        await agents.session("s").ask("two")
        assert [request.system for request in model.requests] == ["You help.", "You help more."]


# -- how much of it a turn reads ------------------------------------------------------------------------------


@in_event_loop
async def test_the_last_turns(database: Database) -> None:
    async with guide(database, history={"last": 1}) as (agents, model):
        session = agents.session("s", "guide")
        for text in ("one", "two", "three"):
            await session.ask(text)
        assert said(model.requests[-1]) == ["two", "re: two", "three"]
        await agents.session("s", history={"last": 0}).ask("four")
        assert said(model.requests[-1]) == ["four"]


@in_event_loop
async def test_as_many_tokens(database: Database) -> None:
    async with guide(database, history={"tokens": 400}) as (agents, model):
        session = agents.session("s", "guide")
        for text in ("a" * 2000, "two", "three"):
            await session.ask(text)
        assert said(model.requests[-1]) == ["two", "re: two", "three"]


@in_event_loop
async def test_a_summary_of_what_does_not_fit(database: Database) -> None:
    def answer(request: Request) -> str:
        return "they counted" if "summarize" in request.system else echo(request)

    async with guide(database, answer, history={"last": 2, "summary": True}) as (agents, model):
        session = agents.session("s", "guide")
        for text in ("one", "two", "three", "four"):
            await session.ask(text)
        made = [request for request in model.requests if "summarize" in request.system]
        assert [said(request) for request in made] == [
            ["user: one\nassistant: re: one\nuser: two\nassistant: re: two"]
        ]
        heading = "Summary of the conversation so far:\nthey counted"
        assert said(model.requests[-1]) == [heading, "three", "re: three", "four"]
        await session.ask("five")  # what the summary knows is read from its card
        assert said(model.requests[-1]) == [heading, "three", "re: three", "four", "re: four", "five"]
        await session.ask("six")
        again = said([request for request in model.requests if "summarize" in request.system][-1])
        assert again[0].startswith(heading) and "user: three" in again[0]


@in_event_loop
async def test_a_summary_survives_the_worker_that_made_it(database: Database) -> None:
    """The first worker stops while its model thinks; the second goes on with the summary of the first."""
    thinking, over = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Slow(MeetingModel):
        def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
            if "summarize" not in request.system and said(request)[-1] == "three":
                loop.call_soon_threadsafe(thinking.set)
                over.wait(20)
            return Reply((Text("short" if "summarize" in request.system else "ok"),), StopReason.END_TURN)

    async with open_agents(database, model=Slow(1)) as agents:
        await agents.define("guide", "You help.", history={"last": 1, "summary": True})
        for text in ("one", "two"):
            await agents.session("s", "guide").ask(text)
        turn = await agents.session("s").send("three")
        await thinking.wait()
    over.set()
    model = ScriptedModel(echo)
    async with open_agents(database, model=model) as agents:
        assert (await agents.wait(turn)).text == "re: three"
    assert [said(request) for request in model.requests] == [
        ["Summary of the conversation so far:\nshort", "three"]
    ]


@in_event_loop
async def test_a_turn_goes_on_without_a_summary(database: Database) -> None:
    def answer(request: Request) -> str:
        if "summarize" in request.system:
            raise ModelError("busy")
        return echo(request)

    async with guide(database, answer, history={"last": 1, "summary": True}) as (agents, model):
        session = agents.session("s", "guide")
        await session.ask("one")
        assert (await session.ask("two")).text == "re: two"
        assert (await session.ask("three")).text == "re: three"
        assert said(model.requests[-1]) == ["three"]


@pytest.mark.parametrize(
    ("history", "why"),
    [
        ({"last": -1}, "last is -1"),
        ({"first": 1}, "known are last, tokens"),
        ({"summary": True}, "needs a limit"),
    ],
)
@in_event_loop
async def test_what_is_no_policy(database: Database, history: dict[str, Any], why: str) -> None:
    async with guide(database) as (agents, _):
        with pytest.raises(InputError, match=why):
            agents.session("s", "guide", history=history)


def test_the_name_of_an_actor() -> None:
    assert actor_of("guide", "user-42") == "guide~user-42"
    assert actor_of("guide", "a b.c").startswith("guide~") and " " not in actor_of("guide", "a b.c")
    assert CardType.SESSION == "sys.session"
