"""What every notifier promises within a process, on all four wires."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from notifier_house import SECONDS, TOUCH, House, receive
from support.threads import newcomers

from afl.kernel.database import Transaction, connect
from afl.kernel.errors import InputError
from afl.kernel.notify import open_notifier


def test_only_the_local_wire_stays_in_the_process(house: House, request: pytest.FixtureRequest) -> None:
    assert house.notifier.crosses_processes == (house.store != "memory://")


def test_a_ring_between_listening_and_waiting_is_not_lost(house: House, topic: str) -> None:
    with house.notifier.listen([topic]) as subscription:
        house.notifier.notify(topic)
        assert receive(subscription, topic)


def test_a_ring_wakes_one_who_waits(house: House, topic: str) -> None:
    with house.notifier.listen([topic]) as subscription:
        outcome: list[bool] = []
        waiter = threading.Thread(target=lambda: outcome.append(receive(subscription, topic)))
        waiter.start()
        house.notify(topic)
        waiter.join(SECONDS)
        assert outcome == [True]


def test_rings_coalesce_and_are_used_up(house: House, topic: str) -> None:
    with house.notifier.listen([topic]) as subscription:
        for _ in range(5):
            house.notifier.notify(topic)
        assert subscription.wait(SECONDS) == {topic}
        assert subscription.wait(0) == frozenset()


def test_an_ear_hears_its_own_topics_only(house: House, topic: str) -> None:
    one, other, third = (f"{topic}:{n}" for n in range(3))
    with house.notifier.listen([one, other]) as subscription, house.notifier.listen([third]) as elsewhere:
        house.notifier.notify(other)
        house.notifier.notify("nobody-listens-to-this")
        assert subscription.wait(SECONDS) == {other}
        assert elsewhere.wait(0) == frozenset()


def test_every_ear_of_a_topic_hears(house: House, topic: str) -> None:
    with house.notifier.listen([topic]) as one, house.notifier.listen([topic]) as other:
        house.notifier.notify(topic)
        assert receive(one, topic) and receive(other, topic)


def test_nothing_rings_for_an_ear_that_left(house: House, topic: str) -> None:
    with house.notifier.listen([topic]) as subscription:
        assert subscription.topics == {topic}
    house.notifier.notify(topic)
    assert subscription.closed and subscription.wait(SECONDS) == frozenset()


def test_doorbells_of_one_address_share_one_wire_and_thread(house: House, topic: str) -> None:
    with house.notifier.listen([topic]) as first:
        started = newcomers("afl-notify")
        with open_notifier(house.database, house.doorbell) as second, second.listen([topic]) as subscription:
            house.notifier.notify(topic)
            assert first.wait(SECONDS) == subscription.wait(SECONDS) == {topic}
            assert started() == []
    with house.notifier.listen([topic]) as subscription:
        house.notifier.notify(topic)
        assert receive(subscription, topic), "closing one notifier leaves the others whole"


def test_wake_ends_a_wait(house: House, topic: str) -> None:
    with house.notifier.listen([topic]) as subscription:
        waiter = threading.Thread(target=subscription.wait)
        waiter.start()
        subscription.wake()
        waiter.join(SECONDS)
        assert not waiter.is_alive()


def test_closing_the_doorbell_wakes_all_who_wait(house: House, topic: str) -> None:
    subscriptions = [house.notifier.listen([topic]) for _ in range(3)]
    outcome: list[frozenset[str]] = []
    waiters = [
        threading.Thread(target=lambda subscription=subscription: outcome.append(subscription.wait()))
        for subscription in subscriptions
    ]
    for waiter in waiters:
        waiter.start()
    house.notifier.close()
    for waiter in waiters:
        waiter.join(SECONDS)
    assert outcome == [frozenset()] * 3
    with pytest.raises(InputError, match="is closed"):
        house.notifier.listen([topic])
    house.notifier.notify(topic)  # late, harmless


def test_waiting_from_asyncio(house: House, topic: str) -> None:
    async def scenario() -> list[frozenset[str]]:
        with house.notifier.listen([topic]) as subscription:
            house.notifier.notify(topic)
            at_once = await subscription.wait_async(SECONDS)
            waiting = asyncio.create_task(subscription.wait_async(SECONDS))
            await asyncio.sleep(0)
            await house.database.run("write", lambda tx: tx.run(TOUCH, topic=topic))
            house.notifier.notify(topic)
            later = await waiting
            cancelled = asyncio.create_task(subscription.wait_async())
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            house.notifier.notify(topic)
            while not (after := await subscription.wait_async(SECONDS)):
                pass
            return [at_once, later, after]

    assert asyncio.run(scenario()) == [{topic}] * 3


@pytest.mark.parametrize("bad", ["", "two\nlines", "x" * 256])
def test_a_topic_that_cannot_be_carried_is_refused(house: House, bad: str) -> None:
    with pytest.raises(InputError, match="notifier topic"):
        house.notifier.notify(bad)
    with pytest.raises(InputError, match="notifier topic"):
        house.notifier.listen([bad])


@pytest.mark.parametrize("house", ["postgres"], indirect=True)
def test_a_ring_in_a_transaction_sounds_when_it_commits_and_only_then(house: House, topic: str) -> None:
    kept, lost = f"{topic}:kept", f"{topic}:lost"

    class GivenUpError(Exception):
        pass

    def fail(tx: Transaction) -> None:
        house.notifier.notify_in(tx, lost)
        raise GivenUpError

    with house.notifier.listen([kept, lost]) as subscription:
        with pytest.raises(GivenUpError):
            house.database.write(fail)
        house.database.write(lambda tx: house.notifier.notify_in(tx, kept))
        assert subscription.wait(SECONDS) == {kept}


def test_a_server_that_is_not_there_costs_latency_only(tmp_path: Path, topic: str) -> None:
    with (
        connect(f"sqlite:///{tmp_path}/afl.db") as database,
        open_notifier(database, "nats://127.0.0.1:9") as notifier,
        notifier.listen([topic]) as subscription,
    ):
        notifier.notify(topic)
        assert subscription.wait(SECONDS) == {topic}
        assert not notifier.connected(0)


@pytest.mark.parametrize("bad", ["mqtt://x", "on", "http://a:hush@b"])
def test_an_unknown_doorbell_is_refused(bad: str) -> None:
    with (
        connect("memory://") as database,
        pytest.raises(InputError, match="expected auto, none or") as caught,
    ):
        open_notifier(database, bad)
    assert "hush" not in str(caught.value)


def test_none_stays_in_the_process(tmp_path: Path, topic: str) -> None:
    with connect(f"sqlite:///{tmp_path}/afl.db") as database, open_notifier(database, "none") as notifier:
        assert not notifier.crosses_processes
        with notifier.listen([topic]) as subscription:
            notifier.notify(topic)
            assert subscription.wait(SECONDS) == {topic}
