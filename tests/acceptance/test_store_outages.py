"""PostgreSQL goes away and comes back, under runners that work and under runners that wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from support.databases import with_database
from support.eventually import eventually
from support.warm_processes import WarmProcesses
from support.workshop import Workshop, opened

import afl
from afl.devstack import Stack, temporary_stack
from afl.runtime.entities import TaskState

OTHER = """namespace o {
    event facet Other(n: Long) => (m: Long, stamp: String)
    workflow Second(n: Long) => (m: Long, stamp: String) andThen {
        w = Other(n = $.n)
        yield Second(m = w.m, stamp = w.stamp)
    }
}
"""
BUSY_TASKS = 600
# Long leases: a server that is slow to come back must not make the difference. What is tested is the proof of death.
LEASE = {"AFL_LEASE_MS": "60000"}


@pytest.fixture(scope="module")
def own_server() -> Iterator[Stack]:
    """A PostgreSQL server of these tests alone: nobody else minds when it stops."""
    with temporary_stack() as stack:
        stack.up(["postgres"])
        yield stack


@pytest.fixture
def url(own_server: Stack) -> str:
    """A database of its own; it goes with its server."""
    server, name = own_server.up(["postgres"])["postgres"], f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    return with_database(server, name)


@pytest.fixture
def workshop(tmp_path: Path, url: str, warm: WarmProcesses) -> Iterator[Workshop]:
    with opened(tmp_path, url, warm) as workshop:
        yield workshop
        warm.end_all()


def restart(server: Stack, before: str) -> None:
    assert server.down() == ["postgres"]
    assert server.up(["postgres"])["postgres"].rpartition("/")[0] == before.rpartition("/")[0], "another port"


def test_a_restart_redelivers_nothing_that_still_runs(
    tmp_path: Path, url: str, own_server: Stack, warm: WarmProcesses
) -> None:
    with opened(tmp_path, url, warm) as workshop, opened(tmp_path, url, warm, OTHER) as other:
        agents = tmp_path / "agents.py"
        agents.write_text(
            agents.read_text().replace('@handler("t.Work")', '@handler("t.Work")\n@handler("o.Other")')
        )
        workshop.hold(True)
        first = workshop.submit("t.One", n=1)
        survivor = workshop.runner("--topic", "t.Work", **LEASE)
        held = workshop.wait_held(survivor)
        before = workshop.task(first)
        assert (before.state, before.uuid) == (TaskState.RUNNING, held)
        workshop.close()
        restart(own_server, url)
        # New sessions of this run of the server may judge at once. That they do is shown by one that does die.
        second = other.submit("o.Second", n=2)
        victim = other.runner("--topic", "o.Other", **LEASE)
        lost = other.wait_held(victim)
        judge = other.runner("--topic", "o.Other", **LEASE)
        victim.kill()
        assert other.wait_held(judge) == lost
        workshop.hold(False)
        assert workshop.wait_completed(first)["m"] == 2
        assert other.wait_completed(second)["m"] == 4
        after = workshop.task(first)
        assert (after.deliveries, after.deaths, after.epoch) == (1, 0, before.epoch)
        assert other.task(second).deaths == 1
        (call,) = [each for each in workshop.calls() if each.task == held]
        assert call.pid == survivor.pid
        assert after.result == {"m": 2, "stamp": call.stamp}
        assert [survivor.terminate(), judge.terminate()] == [0, 0]


def test_an_answer_that_comes_while_the_store_is_away_is_recorded_when_it_is_back(
    workshop: Workshop, own_server: Stack, url: str
) -> None:
    workshop.hold(True)
    run = workshop.submit("t.One", n=1)
    runner = workshop.runner(**LEASE)
    held = workshop.wait_held(runner)
    assert workshop.task(run).state == TaskState.RUNNING
    workshop.close()
    own_server.down()
    workshop.hold(False)
    eventually(workshop.returns, runner.said)
    own_server.up(["postgres"])
    outputs = workshop.wait_completed(run)
    task = workshop.task(run)
    assert [call.task for call in workshop.calls()] == [held]
    assert (task.deliveries, task.deaths) == (1, 0)
    assert outputs == {"m": 2, "stamp": workshop.calls()[0].stamp}
    assert runner.terminate() == 0


def test_a_busy_runner_goes_on_when_the_store_is_back(
    workshop: Workshop, own_server: Stack, url: str
) -> None:
    run = workshop.submit("t.Fan", list=list(range(BUSY_TASKS)))
    runner = workshop.runner(**LEASE)
    eventually(lambda: len(workshop.returns()) > 20, runner.said)
    workshop.close()
    restart(own_server, url)
    assert len(workshop.returns()) < BUSY_TASKS, "it was done before the server was gone"
    assert workshop.wait_completed(run)["all"] == [n * 2 for n in range(BUSY_TASKS)]
    tasks = workshop.tasks(run)
    assert {task.deaths for task in tasks} == {0}
    assert Counter(call.task for call in workshop.calls()) == dict.fromkeys([task.uuid for task in tasks], 1)
    assert "the store fails, trying again: " in runner.said()
    assert runner.terminate() == 0


def test_an_idle_runner_outlives_the_store(workshop: Workshop, own_server: Stack, url: str) -> None:
    runner = workshop.runner(**LEASE)
    assert workshop.wait_completed(workshop.submit("t.One", n=1))["m"] == 2
    workshop.close()
    own_server.down()
    eventually(lambda: "the store fails, trying again: " in runner.said(), runner.said)
    own_server.up(["postgres"])
    assert workshop.wait_completed(workshop.submit("t.One", n=2))["m"] == 4
    assert runner.terminate() == 0
    assert "Traceback" not in runner.said()


def test_who_awaits_a_result_notices_neither_a_killed_worker_nor_a_restart(
    workshop: Workshop, url: str, own_server: Stack
) -> None:
    async def story() -> None:
        async with afl.connect(url) as flow:
            workshop.hold(True)
            handle = await flow.get(workshop.submit("t.One", n=1))
            awaited = asyncio.create_task(handle.result())
            followed = asyncio.create_task(_kinds(handle))
            victim = workshop.runner(AFL_LEASE_MS="5000")
            lost = await asyncio.to_thread(workshop.wait_held, victim)
            workshop.close()
            await asyncio.to_thread(restart, own_server, url)
            other = workshop.runner(AFL_LEASE_MS="5000")
            victim.kill()
            assert await asyncio.to_thread(workshop.wait_held, other) == lost
            workshop.hold(False)
            assert (await awaited)["m"] == 2
            assert await followed == ["step-started", "step-completed", "run-completed"]
            with afl.connect(url) as blocking:
                assert blocking.get(handle.id).result()["m"] == 2

    asyncio.run(asyncio.wait_for(story(), 120))


async def _kinds(handle: afl.AsyncRunHandle) -> list[str]:
    """What is told of the steps; the loss of the worker is in the log."""
    return [event.kind async for event in handle.events() if event.kind != "log"]
