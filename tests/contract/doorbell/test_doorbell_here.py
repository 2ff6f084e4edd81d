"""What every doorbell promises within a process, on all four wires."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from doorbell_house import SECONDS, TOUCH, House, hear
from support.threads import newcomers

from afl.kernel.database import Transaction, connect
from afl.kernel.errors import InputError
from afl.kernel.notify import open_doorbell


def test_only_the_local_wire_stays_in_the_process(house: House, request: pytest.FixtureRequest) -> None:
    assert house.bell.crosses_processes == (house.store != "memory://")


def test_a_ring_between_listening_and_waiting_is_not_lost(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        house.bell.ring(topic)
        assert hear(ear, topic)


def test_a_ring_wakes_one_who_waits(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        outcome: list[bool] = []
        waiter = threading.Thread(target=lambda: outcome.append(hear(ear, topic)))
        waiter.start()
        house.ring(topic)
        waiter.join(SECONDS)
        assert outcome == [True]


def test_rings_coalesce_and_are_used_up(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        for _ in range(5):
            house.bell.ring(topic)
        assert ear.wait(SECONDS) == {topic}
        assert ear.wait(0) == frozenset()


def test_an_ear_hears_its_own_topics_only(house: House, topic: str) -> None:
    one, other, third = (f"{topic}:{n}" for n in range(3))
    with house.bell.listen([one, other]) as ear, house.bell.listen([third]) as elsewhere:
        house.bell.ring(other)
        house.bell.ring("nobody-listens-to-this")
        assert ear.wait(SECONDS) == {other}
        assert elsewhere.wait(0) == frozenset()


def test_every_ear_of_a_topic_hears(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as one, house.bell.listen([topic]) as other:
        house.bell.ring(topic)
        assert hear(one, topic) and hear(other, topic)


def test_nothing_rings_for_an_ear_that_left(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        assert ear.topics == {topic}
    house.bell.ring(topic)
    assert ear.closed and ear.wait(SECONDS) == frozenset()


def test_doorbells_of_one_address_share_one_wire_and_thread(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as first:
        started = newcomers("afl-doorbell")
        with open_doorbell(house.database, house.doorbell) as second, second.listen([topic]) as ear:
            house.bell.ring(topic)
            assert first.wait(SECONDS) == ear.wait(SECONDS) == {topic}
            assert started() == []
    with house.bell.listen([topic]) as ear:
        house.bell.ring(topic)
        assert hear(ear, topic), "closing one doorbell leaves the others whole"


def test_wake_ends_a_wait(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        waiter = threading.Thread(target=ear.wait)
        waiter.start()
        ear.wake()
        waiter.join(SECONDS)
        assert not waiter.is_alive()


def test_closing_the_doorbell_wakes_all_who_wait(house: House, topic: str) -> None:
    ears = [house.bell.listen([topic]) for _ in range(3)]
    outcome: list[frozenset[str]] = []
    waiters = [threading.Thread(target=lambda ear=ear: outcome.append(ear.wait())) for ear in ears]
    for waiter in waiters:
        waiter.start()
    house.bell.close()
    for waiter in waiters:
        waiter.join(SECONDS)
    assert outcome == [frozenset()] * 3
    with pytest.raises(InputError, match="is closed"):
        house.bell.listen([topic])
    house.bell.ring(topic)  # late, harmless


def test_waiting_from_asyncio(house: House, topic: str) -> None:
    async def scenario() -> list[frozenset[str]]:
        with house.bell.listen([topic]) as ear:
            house.bell.ring(topic)
            at_once = await ear.wait_async(SECONDS)
            waiting = asyncio.create_task(ear.wait_async(SECONDS))
            await asyncio.sleep(0)
            await house.database.run("write", lambda tx: tx.run(TOUCH, topic=topic))
            house.bell.ring(topic)
            later = await waiting
            cancelled = asyncio.create_task(ear.wait_async())
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            house.bell.ring(topic)
            while not (after := await ear.wait_async(SECONDS)):
                pass
            return [at_once, later, after]

    assert asyncio.run(scenario()) == [{topic}] * 3


@pytest.mark.parametrize("bad", ["", "two\nlines", "x" * 256])
def test_a_topic_that_cannot_be_carried_is_refused(house: House, bad: str) -> None:
    with pytest.raises(InputError, match="doorbell topic"):
        house.bell.ring(bad)
    with pytest.raises(InputError, match="doorbell topic"):
        house.bell.listen([bad])


@pytest.mark.parametrize("house", ["postgres"], indirect=True)
def test_a_ring_in_a_transaction_sounds_when_it_commits_and_only_then(house: House, topic: str) -> None:
    kept, lost = f"{topic}:kept", f"{topic}:lost"

    class GivenUpError(Exception):
        pass

    def fail(tx: Transaction) -> None:
        house.bell.ring_in(tx, lost)
        raise GivenUpError

    with house.bell.listen([kept, lost]) as ear:
        with pytest.raises(GivenUpError):
            house.database.write(fail)
        house.database.write(lambda tx: house.bell.ring_in(tx, kept))
        assert ear.wait(SECONDS) == {kept}


def test_a_server_that_is_not_there_costs_latency_only(tmp_path: Path, topic: str) -> None:
    with (
        connect(f"sqlite:///{tmp_path}/afl.db") as database,
        open_doorbell(database, "nats://127.0.0.1:9") as bell,
        bell.listen([topic]) as ear,
    ):
        bell.ring(topic)
        assert ear.wait(SECONDS) == {topic}
        assert not bell.connected(0)


@pytest.mark.parametrize("bad", ["mqtt://x", "on", "http://a:hush@b"])
def test_an_unknown_doorbell_is_refused(bad: str) -> None:
    with (
        connect("memory://") as database,
        pytest.raises(InputError, match="expected auto, none or") as caught,
    ):
        open_doorbell(database, bad)
    assert "hush" not in str(caught.value)


def test_none_stays_in_the_process(tmp_path: Path, topic: str) -> None:
    with connect(f"sqlite:///{tmp_path}/afl.db") as database, open_doorbell(database, "none") as bell:
        assert not bell.crosses_processes
        with bell.listen([topic]) as ear:
            bell.ring(topic)
            assert ear.wait(SECONDS) == {topic}
