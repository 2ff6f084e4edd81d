"""Workers of turns are killed with tools in flight, NATS comes and goes: every turn ends once, with its deliverable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.eventually import eventually
from support.turns_stage import PROJECT, Stage, staged
from support.warm_processes import Warm, WarmProcesses

from afl.devstack import Stack, temporary_stack
from afl.kernel.database import connect
from afl.turns import L0Engine, ToolService
from afl.turns.bus import open_bus
from afl.turns.statuses import CardType, TaskStatus

ROUNDS = 10
VICTIMS = 5
TAKEOVERS = 1  # in this round there is nothing new: victims go on with what others left


@pytest.fixture(scope="module")
def own_nats() -> Iterator[Stack]:
    """A server of these tests alone: nobody else minds when it stops."""
    with temporary_stack() as stack:
        stack.up(["nats"])
        yield stack


@pytest.fixture
def stage(tmp_path: Path, postgres_database: str, own_nats: Stack, warm: WarmProcesses) -> Iterator[Stage]:
    with staged(tmp_path, postgres_database, own_nats, warm) as stage:
        yield stage


@contextmanager
def remote_tool(stage: Stage) -> Iterator[None]:
    """Another process, as far as the workers can tell: it answers `cmd.tool.remote.*`."""
    ready, over = threading.Event(), threading.Event()

    def remote(n: int) -> str:
        """Far away."""
        return "remote"

    async def serve() -> None:
        with connect(stage.url) as database:
            engine = L0Engine(database, open_bus(database, stage.bus))
            await engine.start(relay=False)
            service = ToolService(engine, PROJECT, [remote], target="remote")
            await service.start()
            ready.set()
            await asyncio.to_thread(over.wait)
            await service.stop()
            await engine.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        over.set()
        thread.join()


def restart_nats(stage: Stage) -> None:
    stage.stop_nats()
    stage.start_nats()


def kill_in_flight(stage: Stage, victims: list[Warm], *, without_nats: bool = False) -> int:
    """kill -9 of processes that are in the middle of tool calls, which nobody has a result of; how many they were.

    NATS may go and come back while they are.
    """
    held = [stage.wait_held(victim) for victim in victims]
    if without_nats:
        restart_nats(stage)
    for victim in victims:
        victim.kill()
    lost = [call for calls in held for call in calls]
    assert lost and not any(stage.has_result(call) for call in lost)
    return len([calls for calls in held if calls])


def end_without_nats(stage: Stage) -> None:
    """A worker ends turns that nobody can be told of, and is killed; the server is away longer than it knows ids."""
    worker = stage.started(stage.worker())
    eventually(lambda: stage.unpublished() == 0, worker.said)
    stage.stop_nats()
    asked = stage.ask(stage.hire("near", 3))
    eventually(lambda: all(stage.ended(turn) for turn in asked), worker.said)
    worker.kill()
    assert stage.unpublished() >= len(asked)
    stage.start_nats()


def test_every_turn_ends_once_however_many_workers_are_killed(stage: Stage) -> None:
    killed = 0
    with remote_tool(stage):
        for number in range(ROUNDS):
            if number != TAKEOVERS:
                stage.ask([*stage.hire("near", 6), *stage.hire("far", 3)])
            victims = [stage.worker(concurrency=1, HOLD_FROM="2") for _ in range(VICTIMS)]
            killed += kill_in_flight(stage, victims, without_nats=number in (3, 8))
            if number == 6:
                end_without_nats(stage)
        assert killed >= 50
        survivors = [stage.worker() for _ in range(2)]
        eventually(lambda: not stage.open_turns(), lambda: [each.said() for each in survivors])
        eventually(lambda: stage.unpublished() == 0, lambda: [each.said() for each in survivors])
        assert [each.terminate() for each in survivors] == [0, 0]
    assert_each_ended_once(stage)
    again = [call for call, count in stage.calls().items() if count > 1]
    assert again  # calls that died with their worker were made again


def test_without_nats_turns_end_by_sweep_and_are_told_of_in_order_on_its_return(stage: Stage) -> None:
    worker = stage.started(stage.worker())
    stage.stop_nats()
    agents = stage.hire("near", 2)
    stage.ask(agents * 4)
    eventually(lambda: not stage.open_turns(), worker.said)
    assert stage.unpublished() == 8
    stage.start_nats()
    eventually(lambda: stage.unpublished() == 0, worker.said)
    assert worker.terminate() == 0
    assert_each_ended_once(stage)
    told = stage.told()
    for agent in agents:
        asked = [turn.agent_turn_id for turn in stage.turns if turn.agent_id == agent]
        assert [each.turn for each in told if each.agent == agent] == asked


def assert_each_ended_once(stage: Stage) -> None:
    told = stage.told_by_turn()
    assert sorted(told) == sorted(turn.agent_turn_id for turn in stage.turns)
    assert {len(each) for each in told.values()} == {1}
    for turn in stage.turns:
        end, cards = stage.ended(turn), stage.output(turn)
        assert end is not None
        payload = end.message.payload
        assert payload["status"] == TaskStatus.SUCCESS
        (deliverable,) = [card for card in cards if card.type == CardType.TASK_DELIVERABLE]
        assert payload["deliverable_card_id"] == deliverable.card_id
        called = [card.tool_call_id for card in cards if card.type == CardType.TOOL_CALL]
        answered = [card.tool_call_id for card in cards if card.type == CardType.TOOL_RESULT]
        assert sorted(answered) == sorted(called) == sorted(set(called))
        assert len(called) == (3 if turn.agent_id.startswith("far") else 2)
