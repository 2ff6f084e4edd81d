"""NATS is a notifier: without it turns take longer to be noticed, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest
from nats.aio.client import Client
from support.turns_office import Office, Place, office, run, told_first, until

from afl.devstack import Stack, temporary_stack
from afl.turns.bus.nats import STREAMS
from afl.turns.protocol.subjects import event_subject
from afl.turns.tools.service import ToolService


def add(a: int, b: int) -> int:
    return a + b


def test_turns_finish_by_sweep_while_nats_is_away(empty_postgres_url: str) -> None:
    async def work() -> None:
        with temporary_stack() as stack:
            nats = await asyncio.to_thread(lambda: stack.up(["nats"])["nats"])
            async with office(Place(empty_postgres_url, nats)) as there:
                await there.overhear()
                await there.hire(told_first([("add", {"a": 1, "b": 2})]), poll_seconds=0.05)
                await there.agents.define("ada", tools=[add])
                assert (await there.agents.ask("ada", "go")).text == "3"
                await until(lambda: len(there.told("task")) == 1)
                await asyncio.to_thread(stack.down)
                turns = [await there.agents.send("ada", f"go {n}") for n in range(3)]
                for turn in turns:
                    assert (await there.agents.wait(turn)).text == "3"
                await until(lambda: there.count("state.outbox", "published_at is null") == 3)
                await asyncio.to_thread(lambda: stack.up(["nats"]))
                await until(lambda: there.count("state.outbox", "published_at is null") == 0)
                await until(lambda: len(there.told("task")) == 4)
                told = [each["agent_turn_id"] for each in there.told("task")[1:]]
                assert told == [turn.agent_turn_id for turn in turns]

    run(work)


AGENTS, TURNS = 5, 60


def restart_dead(stack: Stack) -> None:
    """kill -9, and the server's return."""
    [status] = stack.status()
    assert status.pid is not None
    os.kill(status.pid, signal.SIGKILL)
    stack.down()
    stack.up(["nats"])


async def ends_on_stream(there: Office, url: str) -> int:
    """How many ends of turns the stream has, whoever heard them."""
    client = Client()
    await client.connect(url)
    try:
        subject = event_subject(there.project, "*", "*", "task")
        info = await client.jetstream().stream_info(STREAMS["evt"][0], subjects_filter=subject)
        return sum((info.state.subjects or {}).values())
    finally:
        await client.close()


def test_commands_and_ends_outlive_a_server_that_is_killed_under_load(
    empty_postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each turn commands a tool of another process, over NATS; the server is killed twice meanwhile."""
    caplog.set_level(logging.WARNING)

    async def work() -> None:
        with temporary_stack() as stack:
            nats = await asyncio.to_thread(lambda: stack.up(["nats"])["nats"])
            async with office(Place(empty_postgres_url, nats)) as there:
                service = ToolService(there.engine, there.project, [add])
                await service.register()
                await service.start()
                await there.hire(told_first([("add", {"a": 1, "b": 2})]), poll_seconds=0.05)
                for number in range(AGENTS):
                    await there.agents.define(f"ada{number}", tools=["add"])
                sent = [await there.agents.send(f"ada{n % AGENTS}", f"go {n}") for n in range(TURNS)]
                for done in (TURNS // 6, TURNS // 2):
                    await until(lambda done=done: there.count("state.outbox", "kind = 'task'") >= done)
                    await asyncio.to_thread(restart_dead, stack)
                for turn in sent:
                    assert (await there.agents.wait(turn)).text == "3"
                await until(lambda: there.count("state.outbox", "sequence is null") == 0)
                assert await ends_on_stream(there, nats) == TURNS
                await service.stop()

    run(work)
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []
