"""NATS is a doorbell: without it turns take longer to be noticed, and nothing else."""

from __future__ import annotations

import asyncio

from support.turns_office import Place, office, run, told_first, until

from afl.devstack import temporary_stack


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
