"""One external task that cannot be started, canceled or polled delays no other; many cost no more than they must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pytest
from support.crossings import Crossing
from support.eventually import eventually

from afl.bridges.bridge import Bridge, ExternalTask, Host, Outcome
from afl.operations.run.control import cancel, pause, unpause
from afl.runtime.memory_store import MemoryStore

WORK = """
event facet Work(n: Long) => (m: Long) with Agent("somebody")
workflow W(n: Long) => (m: Long) andThen {
    done = Work(n = $.n)
    yield W(m = done.m)
}
"""
BAD = 13  # the parameter of the external task that fails


class Trouble(Exception):
    """Nothing that a bridge foresees."""


class Side(Bridge):
    """Another side on which the bad task raises where `fails` says; what is begun there has ended."""

    kind = "agent"

    def __init__(self, host: Host, fails: Sequence[str] = ()) -> None:
        self.fails = fails
        self.known: dict[str, int] = {}
        self.calls: list[tuple[str, str]] = []
        self.done = True

    def act(self, name: str, external_id: str) -> None:
        self.calls.append((name, external_id))
        if name in self.fails and self.known.get(external_id, BAD) == BAD:
            raise Trouble(name)

    async def start(self, external: ExternalTask) -> None:
        if external.parameters["n"] != BAD:
            self.known[external.id] = external.parameters["n"]
        self.act("begin", external.id)
        self.known[external.id] = external.parameters["n"]

    async def poll(self, externals: Sequence[ExternalTask]) -> list[Outcome]:
        self.calls += [("look", external.id) for external in externals]
        ended = [external for external in externals if self.done and self.known.get(external.id, BAD) != BAD]
        return [Outcome(external.id, result={"m": self.known[external.id]}) for external in ended]

    async def retain(self, externals: Sequence[ExternalTask]) -> None: ...

    async def cancel(self, external_id: str, to: str) -> bool:
        self.act("cancel", external_id)
        return external_id in self.known

    async def close(self) -> None: ...

    def count(self, name: str, external_id: str) -> int:
        return self.calls.count((name, external_id))


@pytest.fixture
def crossing() -> Iterator[Crossing]:
    store = MemoryStore()
    with Crossing(store, "memory://", poll_interval_ms=20) as crossing:
        yield crossing
    store.close()


def hosted(crossing: Crossing, *fails: str) -> Side:
    made: list[Side] = []

    def opened(host: Host) -> Side:
        made.append(Side(host, fails))
        return made[0]

    crossing.host(agent=partial(opened))
    bad = crossing.submit(WORK, {"n": BAD})
    uuid = crossing.task(bad).uuid
    eventually(lambda: made and made[0].count("begin", uuid) > 1 if "begin" in fails else made)
    return made[0]


def test_one_that_cannot_be_begun_keeps_no_other_waiting(crossing: Crossing) -> None:
    side = hosted(crossing, "begin")
    side.done = False
    runs = [crossing.submit(WORK, {"n": n}) for n in range(3)]
    eventually(lambda: len(side.known) == 3)
    side.done = True
    for run in runs:
        crossing.until(run, "completed")


def test_a_paused_run_has_nothing_begun_until_it_goes_on(crossing: Crossing) -> None:
    side = hosted(crossing, "begin")
    (bad,) = crossing.store.get_runs()
    uuid = crossing.task(bad.workflow_id).uuid
    pause(crossing.store, bad.workflow_id)
    crossing.until(crossing.submit(WORK, {"n": 0}), "completed")  # what was under way then is over
    tries, side.fails = side.count("begin", uuid), ()
    for n in range(1, 4):
        crossing.until(crossing.submit(WORK, {"n": n}), "completed")
    assert side.count("begin", uuid) == tries
    unpause(crossing.store, bad.workflow_id)
    eventually(lambda: uuid in side.known)


def test_one_that_cannot_be_called_off_keeps_no_other_waiting(crossing: Crossing) -> None:
    side = hosted(crossing, "cancel")
    (bad,) = crossing.store.get_runs()
    cancel(crossing.store, bad.workflow_id)
    uuid = crossing.task(bad.workflow_id).uuid
    eventually(lambda: side.count("cancel", uuid) > 1)
    side.done = False
    off = crossing.submit(WORK, {"n": 1})
    eventually(lambda: crossing.task(off).uuid in side.known)
    cancel(crossing.store, off)
    eventually(lambda: crossing.is_told(off))
    side.done = True
    crossing.until(crossing.submit(WORK, {"n": 2}), "completed")
    assert not crossing.is_told(bad.workflow_id)


def test_one_that_nobody_there_knows_is_called_off_again_when_all_is_looked_at_and_not_at_every_ring() -> (
    None
):
    """A run with thousands of steps that was canceled would have them all called off again for each new step."""
    store = MemoryStore()
    with Crossing(store, "memory://", poll_interval_ms=600_000) as crossing:
        side = hosted(crossing)
        (bad,) = crossing.store.get_runs()
        uuid = crossing.task(bad.workflow_id).uuid
        eventually(lambda: side.count("look", uuid))
        side.known.clear()
        cancel(crossing.store, bad.workflow_id)
        eventually(lambda: side.count("cancel", uuid))
        crossing.until(crossing.submit(WORK, {"n": 0}), "completed")
        once = side.count("cancel", uuid)  # twice, if it ended while it was being begun
        for n in range(1, 4):
            crossing.until(crossing.submit(WORK, {"n": n}), "completed")
        assert side.count("cancel", uuid) == once
    store.close()
