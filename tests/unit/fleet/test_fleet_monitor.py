"""The monitor with a clock of the test's own, the registry of agents, and those who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet_stores import LEASE_MS, Keeper

from afl.fleet.messages import Status
from afl.fleet.principal.catalog import Catalog
from afl.fleet.principal.context import FetchQueue, LongPolls, PrincipalContext
from afl.fleet.principal.monitor import Monitor
from afl.fleet.principal.registry import Registry
from afl.kernel.database import connect


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    keeper = Keeper(connect("memory://"))
    with keeper.store.database:
        yield keeper


def desk_of(keeper: Keeper, folder: Path) -> PrincipalContext:
    return PrincipalContext(keeper.store, Catalog(folder), Registry(keeper.store.wall))


def test_an_agent_is_judged_in_time_and_its_run_goes_to_another(keeper: Keeper, tmp_path: Path) -> None:
    context = desk_of(keeper, tmp_path)
    keeper.enqueue("a", requeues=1)
    keeper.claim("i")
    keeper.say("i", "a", 1, Status.RUNNING)
    context.registry.seen("agent i", "i")

    async def watch() -> None:
        monitor = Monitor(context)
        await monitor.start()
        for _ in range(5):
            assert await monitor.look() == 5.0
            keeper.now += 5_000
        keeper.now += LEASE_MS - 26_000
        assert await monitor.look() == 1.001
        keeper.now += 1_001
        with context.fetch_queue.join("agent", "other") as place:
            await monitor.look()
            assert place.is_notified

    asyncio.run(watch())
    assert keeper.run("a").status is Status.PENDING and context.registry.agents == []


def test_a_principal_that_stood_still_spares_everyone_for_one_timeout(keeper: Keeper, tmp_path: Path) -> None:
    context = desk_of(keeper, tmp_path)
    keeper.enqueue("a", requeues=1)
    keeper.claim("i")
    keeper.say("i", "a", 1, Status.RUNNING)

    async def watch() -> None:
        monitor = Monitor(context)
        await monitor.start()
        assert await monitor.look() == 5.0
        keeper.now += 2 * LEASE_MS
        for _ in range(6):
            assert await monitor.look() == 5.0
            assert keeper.run("a").status is Status.RUNNING
            keeper.now += 5_000
        keeper.now += 1
        await monitor.look()

    asyncio.run(watch())
    assert keeper.run("a").status is Status.PENDING


def test_the_registry_survives_a_restart(keeper: Keeper, tmp_path: Path) -> None:
    context = desk_of(keeper, tmp_path)
    context.registry.seen("me", "i1", slots=3)
    asyncio.run(_look(context))
    asyncio.run(_look(context))
    again = desk_of(keeper, tmp_path)
    asyncio.run(_look(again))
    [agent] = again.registry.agents
    assert (agent.agent_id, agent.incarnation, agent.slots) == ("me", "i1", 3)
    again.registry.seen("me", "i2", slots=4)
    assert [(one.incarnation, one.slots) for one in again.registry.agents] == [("i2", 4)]
    keeper.now += 86_400_001
    again.registry.seen("other", "x")
    asyncio.run(_look(again))
    assert [one.agent_id for one in again.registry.agents] == ["other"]


async def _look(context: PrincipalContext) -> None:
    monitor = Monitor(context)
    await monitor.start()
    await monitor.look()


def test_a_ring_between_look_and_wait_is_not_missed() -> None:
    long_polls = LongPolls()
    looks: list[int] = []

    async def look() -> str | None:
        looks.append(1)
        if len(looks) == 1:
            long_polls.notify(["t"])  # somebody commits right after this look
            return None
        return "found"

    assert asyncio.run(long_polls.until(look, ["t"], 60)) == "found"
    assert asyncio.run(long_polls.until(look, ["t"], 0)) == "found"


def test_the_time_of_a_parked_request_ends() -> None:
    async def look() -> str | None:
        return None

    async def park() -> str | None:
        long_polls = LongPolls()
        assert await long_polls.until(look, ["t"], 0.01) is None
        long_polls.close()
        return await long_polls.until(look, ["t"], 3600)

    assert asyncio.run(park()) is None


def test_one_new_run_wakes_one_agent_and_a_wake_is_passed_on() -> None:
    fetch_queue = FetchQueue()
    with (
        fetch_queue.join("agent", "a") as first,
        fetch_queue.join("agent", "b") as second,
        fetch_queue.join("agent", "c") as third,
    ):
        fetch_queue.wake()
        assert (first.is_notified, second.is_notified, third.is_notified) == (True, False, False)
        fetch_queue.wake()
        assert (second.is_notified, third.is_notified) == (True, False)
        first.clear()
    with fetch_queue.join("agent", "a") as waiting:
        with fetch_queue.join("agent", "d") as leaving:
            waiting.notify()
            fetch_queue.wake()
            assert leaving.is_notified
            waiting.clear()
        assert waiting.is_notified  # the one that left had been woken for a run it did not take


def test_an_agent_that_asks_again_has_given_up_its_earlier_request() -> None:
    async def ask() -> bool:
        fetch_queue = FetchQueue()
        with fetch_queue.join("agent", "a") as earlier, fetch_queue.join("agent", "a"):
            assert earlier.closed
            return await earlier.wait(3600)

    assert asyncio.run(ask()) is False
