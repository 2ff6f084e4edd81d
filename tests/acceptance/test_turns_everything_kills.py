"""kill -9 of each process that a turn with everything takes, while turns are at each of its places."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.eventually import eventually
from support.everything_turn import PLACES, EverythingStage, StreamReader
from support.warm_processes import WarmProcesses

from afl.turns import TurnRef, open_agents

MADE = ("count_orders", "find", "pay", "write")
# The calls that each process makes or answers: those alone may be made again when it dies. A worker makes the calls
# of its MCP server, which dies with it.
REPEATED: dict[str, set[tuple[str, str]]] = {
    "worker": {("find", "find"), ("pay", "pay"), ("write", "write")},
    "service": {("count_orders", "count_orders")},
    "notes": {("find", "find"), ("write", "write")},
    "web": set(),
}


@pytest.fixture
def begin(tmp_path: Path, warm: WarmProcesses) -> Iterator[Callable[[str], EverythingStage]]:
    stages: list[EverythingStage] = []

    def begin(store: str) -> EverythingStage:
        stages.append(EverythingStage(tmp_path, store, warm))
        for part in ("service", "web", "worker"):
            stages[0].start(part)
        return stages[0]

    yield begin
    for stage in stages:
        stage.close()


def send_all(stage: EverythingStage) -> dict[str, TurnRef]:
    """One turn for each place."""

    async def send() -> dict[str, TurnRef]:
        async with open_agents(stage.store) as agents:
            return {place: await agents.send(f"clerk-{place}", place) for place in PLACES}

    return asyncio.run(send())


def is_everywhere(stage: EverythingStage) -> bool:
    """Whether each turn is at its place; other questions than the one it waits for are answered."""
    stage.approve(but="approval")
    asked = any(each.agent_id == "clerk-approval" for each in stage.questions())
    return asked and stage.held() == {*PLACES} - {"approval"}


def kill(stage: EverythingStage, victim: str) -> None:
    if victim == "notes":  # its worker starts it
        os.kill(stage.pid_of("find"), signal.SIGKILL)
        return
    stage.kill(victim)
    stage.start(victim)


def test_each_is_killed_with_turns_at_each_place(
    begin: Callable[[str], EverythingStage], tmp_path: Path
) -> None:
    stage = begin(f"sqlite:///{tmp_path}/afl.db")
    for victim, repeated in REPEATED.items():
        stage.begin_round()
        live(stage, [victim], repeated)


def test_all_are_killed_with_turns_at_each_place(
    begin: Callable[[str], EverythingStage], postgres_database: str
) -> None:
    live(begin(postgres_database), ["web", "service", "worker"], set().union(*REPEATED.values()))


def live(stage: EverythingStage, victims: list[str], repeated: set[tuple[str, str]]) -> None:
    """A turn for each place; when all are there, kill -9 of some, and others in their place."""
    turns = send_all(stage)
    readers = {place: StreamReader(stage, turn).start() for place, turn in turns.items()}
    eventually(lambda: is_everywhere(stage), lambda: (stage.journal(), stage.questions()))
    assert set(stage.calls().values()) == {1}
    for victim in victims:
        kill(stage, victim)
    stage.let_go()

    def have_ended() -> bool:
        stage.approve()
        return all(stage.ends_of(turn) for turn in turns.values())

    eventually(have_ended, stage.journal)
    for place, turn in turns.items():
        check(stage, place, turn, readers[place])
    assert {call for call, times in stage.calls().items() if times > 1} == repeated, victims
    assert max(stage.calls().values()) <= 2
    assert stage.calls().keys() == {(place, name) for place in PLACES for name in MADE}
    assert {reader.connections for reader in readers.values()} == {2 if "web" in victims else 1}


def check(stage: EverythingStage, place: str, turn: TurnRef, reader: StreamReader) -> None:
    """The same result as without a death, and a stream that missed nothing and told nothing twice."""
    assert stage.result_of(turn) == {"found": 7, "paid": "paid 500", "note": '{"result":"wrote it"}'}, place
    reader.thread.join(60)
    whole = StreamReader(stage, turn).start()
    whole.thread.join(60)
    assert reader.told == whole.told and reader.told[-1][0] == "result"
