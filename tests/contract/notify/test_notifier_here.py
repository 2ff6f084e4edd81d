"""What every notifier promises within a process, on all four transports."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from notifier_fixture import SECONDS, TOUCH, Served, receive
from support.threads import newcomers

from afl.kernel.database import connect
from afl.kernel.errors import InputError
from afl.kernel.notify import open_notifier


def test_only_the_local_transport_stays_in_the_process(
    served: Served, request: pytest.FixtureRequest
) -> None:
    assert served.notifier.crosses_processes == (served.store != "memory://")


def test_a_notification_between_subscribing_and_waiting_is_not_lost(served: Served, topic: str) -> None:
    with served.notifier.subscribe([topic]) as subscription:
        served.notifier.notify(topic)
        assert receive(subscription, topic)


def test_a_notification_ends_a_wait(served: Served, topic: str) -> None:
    with served.notifier.subscribe([topic]) as subscription:
        outcome: list[bool] = []
        waiter = threading.Thread(target=lambda: outcome.append(receive(subscription, topic)))
        waiter.start()
        served.notify(topic)
        waiter.join(SECONDS)
        assert outcome == [True]


def test_notifications_coalesce_and_are_used_up(served: Served, topic: str) -> None:
    with served.notifier.subscribe([topic]) as subscription:
        for _ in range(5):
            served.notifier.notify(topic)
        assert subscription.wait(SECONDS) == {topic}
        assert subscription.wait(0) == frozenset()


def test_a_subscription_receives_its_own_topics_only(served: Served, topic: str) -> None:
    one, other, third = (f"{topic}:{n}" for n in range(3))
    with (
        served.notifier.subscribe([one, other]) as subscription,
        served.notifier.subscribe([third]) as elsewhere,
    ):
        served.notifier.notify(other)
        served.notifier.notify("nobody-listens-to-this")
        assert subscription.wait(SECONDS) == {other}
        assert elsewhere.wait(0) == frozenset()


def test_every_subscription_to_a_topic_receives(served: Served, topic: str) -> None:
    with served.notifier.subscribe([topic]) as one, served.notifier.subscribe([topic]) as other:
        served.notifier.notify(topic)
        assert receive(one, topic) and receive(other, topic)


def test_a_closed_subscription_receives_nothing(served: Served, topic: str) -> None:
    with served.notifier.subscribe([topic]) as subscription:
        assert subscription.topics == {topic}
    served.notifier.notify(topic)
    assert subscription.closed and subscription.wait(SECONDS) == frozenset()


def test_notifiers_of_one_address_share_one_transport_and_thread(served: Served, topic: str) -> None:
    with served.notifier.subscribe([topic]) as first:
        started = newcomers("afl-notify")
        with (
            open_notifier(served.database, served.doorbell) as second,
            second.subscribe([topic]) as subscription,
        ):
            served.notifier.notify(topic)
            assert first.wait(SECONDS) == subscription.wait(SECONDS) == {topic}
            assert started() == []
    with served.notifier.subscribe([topic]) as subscription:
        served.notifier.notify(topic)
        assert receive(subscription, topic), "closing one notifier leaves the others whole"


def test_wake_ends_a_wait(served: Served, topic: str) -> None:
    with served.notifier.subscribe([topic]) as subscription:
        waiter = threading.Thread(target=subscription.wait)
        waiter.start()
        subscription.wake()
        waiter.join(SECONDS)
        assert not waiter.is_alive()


def test_closing_the_notifier_ends_all_waits(served: Served, topic: str) -> None:
    subscriptions = [served.notifier.subscribe([topic]) for _ in range(3)]
    outcome: list[frozenset[str]] = []
    waiters = [
        threading.Thread(target=lambda subscription=subscription: outcome.append(subscription.wait()))
        for subscription in subscriptions
    ]
    for waiter in waiters:
        waiter.start()
    served.notifier.close()
    for waiter in waiters:
        waiter.join(SECONDS)
    assert outcome == [frozenset()] * 3
    with pytest.raises(InputError, match="is closed"):
        served.notifier.subscribe([topic])
    served.notifier.notify(topic)  # late, harmless


def test_waiting_from_asyncio(served: Served, topic: str) -> None:
    async def scenario() -> list[frozenset[str]]:
        with served.notifier.subscribe([topic]) as subscription:
            served.notifier.notify(topic)
            at_once = await subscription.wait_async(SECONDS)
            waiting = asyncio.create_task(subscription.wait_async(SECONDS))
            await asyncio.sleep(0)
            await served.database.run("write", lambda tx: tx.run(TOUCH, topic=topic))
            served.notifier.notify(topic)
            later = await waiting
            canceled = asyncio.create_task(subscription.wait_async())
            await asyncio.sleep(0)
            canceled.cancel()
            await asyncio.wait([canceled])
            served.notifier.notify(topic)
            while not (after := await subscription.wait_async(SECONDS)):
                pass
            return [at_once, later, after]

    assert asyncio.run(scenario()) == [{topic}] * 3


@pytest.mark.parametrize("bad", ["", "two\nlines", "x" * 256])
def test_a_topic_that_cannot_be_sent_is_refused(served: Served, bad: str) -> None:
    with pytest.raises(InputError, match="notifier topic"):
        served.notifier.notify(bad)
    with pytest.raises(InputError, match="notifier topic"):
        served.notifier.subscribe([bad])


def test_a_server_that_is_not_there_costs_latency_only(tmp_path: Path, topic: str) -> None:
    with (
        connect(f"sqlite:///{tmp_path}/afl.db") as database,
        open_notifier(database, "nats://127.0.0.1:9") as notifier,
        notifier.subscribe([topic]) as subscription,
    ):
        notifier.notify(topic)
        assert subscription.wait(SECONDS) == {topic}
        assert not notifier.connected(0)


@pytest.mark.parametrize("bad", ["mqtt://x", "on", "http://a:hush@b"])
def test_an_unknown_notifier_is_refused(bad: str) -> None:
    with (
        connect("memory://") as database,
        pytest.raises(InputError, match="expected auto, none or") as caught,
    ):
        open_notifier(database, bad)
    assert "hush" not in str(caught.value)


def test_none_stays_in_the_process(tmp_path: Path, topic: str) -> None:
    with connect(f"sqlite:///{tmp_path}/afl.db") as database, open_notifier(database, "none") as notifier:
        assert not notifier.crosses_processes
        with notifier.subscribe([topic]) as subscription:
            notifier.notify(topic)
            assert subscription.wait(SECONDS) == {topic}
