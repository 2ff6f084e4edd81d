"""Turns that are sent in a worker's own process: in its hand from the first moment, or claimed as any other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.turns_office import Barrier, Place, office, run, told_first, until

from afl.kernel.database import Database, Transaction
from afl.turns.statuses import HeadStatus
from afl.turns.store import inbox
from afl.turns.worker.services import WorkerLimits


class Answer:
    """The store's answer to the next who sends, which is late: the transaction has committed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._committed, self._comes = threading.Event(), threading.Event()
        at_once = Database.write

        def late(database: Database, work: Callable[[Transaction], Any]) -> Any:
            result = at_once(database, work)
            if "_send_to" not in work.__qualname__:  # a worker that was just started claims
                return result
            monkeypatch.setattr(Database, "write", at_once)
            self._committed.set()
            self._comes.wait(30)
            return result

        monkeypatch.setattr(Database, "write", late)

    async def is_due(self) -> None:
        assert await asyncio.to_thread(self._committed.wait, 30)

    def come(self) -> None:
        self._comes.set()


def test_a_turn_sent_here_is_never_claimed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            await there.agents.define("ada")
            worker = await there.hire(lambda request: "done")

            async def no_claim(room: int) -> Any:
                raise AssertionError("a claim")

            monkeypatch.setattr(worker, "_claim", no_claim)
            assert (await there.agents.ask("ada", "go")).text == "done"
            assert there.head("ada").turn_epoch == 1
            await until(lambda: len(there.told("task")) == 1)
            assert [each["phase"] for each in there.told("step")] == ["started", "completed"]
            assert not [each for each in there.received if each.subject.endswith(".wakeup")]

    run(work)


def test_with_no_hand_free_it_waits_to_be_claimed(place: Place) -> None:
    async def work() -> None:
        slow = Barrier()

        def hold(key: str) -> str:
            slow(key)
            return "held"

        async with office(place) as there:
            await there.agents.define("ada", tools=[hold])
            await there.agents.define("bob", tools=[])
            await there.hire(told_first([("hold", {"key": "k"})]), limits=WorkerLimits(concurrency=1))
            first = await there.agents.send("ada", "go")
            await slow.called()
            second = await there.agents.send("bob", "go")
            assert there.head("bob").status is HeadStatus.DISPATCHED
            slow.open()
            assert (await there.agents.wait(first)).text == "held"
            await there.agents.wait(second)

    run(work)


def test_a_sender_who_is_canceled_leaves_a_turn_that_runs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            await there.agents.define("ada")
            await there.hire(lambda request: "done", poll_seconds=60.0)
            answer = Answer(monkeypatch)
            sending = asyncio.create_task(there.agents.send("ada", "go"))
            await answer.is_due()
            sending.cancel()
            answer.come()
            with pytest.raises(asyncio.CancelledError):
                await sending
            (told,) = await until(lambda: there.told("task") or None)
            assert told["status"] == "success"

    run(work)


def test_what_cannot_be_sent_keeps_no_hand(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.agents.define("ada")
            await there.hire(lambda request: "done", limits=WorkerLimits(concurrency=1))
            for _ in range(3):
                with pytest.raises(Exception, match="not in the roster"):
                    await there.agents.send("nobody", "go")
            turn = await there.agents.send("ada", "go")
            assert (await there.agents.wait(turn)).text == "done"
            found = there.read(lambda tx: inbox.turn_row(tx, there.project, turn.agent_turn_id))
            assert found is not None and found.claimed_by == ""

    run(work)


def test_a_worker_that_stops_waits_for_the_turn_that_is_being_sent(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.agents.define("ada")
            worker = await there.hire(lambda request: "done")
            answer = Answer(monkeypatch)
            sending = asyncio.create_task(there.agents.send("ada", "go"))
            await answer.is_due()
            stopping = asyncio.create_task(worker.stop(grace=30.0))
            await asyncio.sleep(0)
            answer.come()
            turn = await sending
            await stopping
            assert (await there.agents.wait(turn)).text == "done"

    run(work)
