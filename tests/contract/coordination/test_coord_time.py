"""Delays, times to live, windows of deduplication, aging."""

from __future__ import annotations

import pytest
from support.post_office import ANN, BOB, CLEO, HIGH, LOW, NORMAL, Office, Post, drained, letter, must_receive

from afl.coordination.errors import CoordinatorInputError
from afl.coordination.models import FailureType


def test_a_delayed_message_comes_when_it_is_due(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter(1, priority=HIGH), delay_seconds=30)
        await coordinator.send_message(ANN, BOB, letter(2, priority=HIGH))
        await coordinator.send_message(ANN, BOB, letter(3, priority=LOW))
        assert await drained(coordinator) == ["letter-2", "letter-3"]
        await post.pass_time(29)
        assert await coordinator.receive(BOB) is None
        await post.pass_time(1)
        assert await drained(coordinator) == ["letter-1"]

    office(story)


def test_what_outlived_its_time_is_gone(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter(1), ttl_seconds=30)
        await coordinator.send_message(ANN, BOB, letter(2), ttl_seconds=60.5)
        await coordinator.send_message(ANN, BOB, letter(3))
        await post.pass_time(31)
        assert await drained(coordinator) == ["letter-2", "letter-3"]
        assert (await coordinator.statistics(BOB)).dead == 0
        told = [(each.event, each.message_id) for each in await coordinator.audit_trail(BOB)]
        assert ("lapsed", "letter-1") in told

    office(story)


def test_what_outlived_its_time_is_not_counted(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number, priority in ((1, HIGH), (2, NORMAL), (3, LOW)):
            await coordinator.send_message(ANN, BOB, letter(number, priority=priority), ttl_seconds=30)
        await coordinator.send_message(ANN, BOB, letter(4), delay_seconds=20, ttl_seconds=30)
        await coordinator.send_message(ANN, BOB, letter(5))
        held = await must_receive(coordinator, timeout=100)
        await post.pass_time(31)
        found = await coordinator.statistics(BOB)
        assert (found.ready, found.delayed, found.in_flight) == (1, 0, 1)
        assert await coordinator.ack(BOB, held.token)
        assert await drained(coordinator) == ["letter-5"]

    office(story)


def test_a_queue_full_of_lapsed_messages_has_room(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(queue_size=2)
        for number in (1, 2):
            await coordinator.send_message(ANN, BOB, letter(number), ttl_seconds=30)
        assert not (await coordinator.send_message(ANN, BOB, letter(3))).delivered
        await post.pass_time(30)
        results = await coordinator.broadcast_message(ANN, letter(3), [BOB, BOB, BOB])
        assert [each.delivered for each in results] == [True, True, False]
        assert await drained(coordinator) == ["letter-3", "letter-3"]

    office(story)


def test_a_held_message_may_be_finished_after_its_time_but_does_not_come_back(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number in (1, 2, 3):
            await coordinator.send_message(ANN, BOB, letter(number), ttl_seconds=30)
        received = await coordinator.receive_batch(BOB, 3, 100)
        await post.pass_time(31)
        assert await coordinator.ack(BOB, received[0].token)
        assert await coordinator.nack(BOB, received[1].token), "it was held, so the answer counts"
        assert (await coordinator.statistics(BOB)).total == 1
        await post.pass_time(100)
        assert await coordinator.recover_pending() == 0
        assert await coordinator.queues() == []

    office(story)


def test_what_is_released_after_its_time_takes_no_room(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(queue_size=1)
        await coordinator.send_message(ANN, BOB, letter(1), ttl_seconds=30)
        held = await must_receive(coordinator)
        await post.pass_time(31)
        await coordinator.recover_pending(BOB)
        assert await coordinator.release(BOB, [held.token]) == [True]
        assert (await coordinator.send_message(ANN, BOB, letter(2))).delivered
        assert await drained(coordinator) == ["letter-2"]

    office(story)


def test_recovery_sweeps_what_lapsed(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter(1, priority=LOW), ttl_seconds=30)
        await post.pass_time(30)
        assert await coordinator.recover_pending() == 0
        assert await coordinator.queues() == []

    office(story)


@pytest.mark.parametrize("ttl", [0, -1, 30])
def test_a_message_must_have_time_to_arrive(office: Office, ttl: float) -> None:
    async def story(post: Post) -> None:
        with pytest.raises(CoordinatorInputError, match="ttl_seconds"):
            await post.coordinator().send_message(ANN, BOB, letter(), delay_seconds=30, ttl_seconds=ttl)

    office(story)


def test_a_duplicate_within_the_window_is_delivered_once(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(dedup_window=60.0, queue_size=2)
        for _ in range(3):
            result = await coordinator.send_message(ANN, BOB, letter())
            assert (result.delivered, result.error) == (True, None)
        assert (await coordinator.send_message(ANN, CLEO, letter())).delivered, "a queue of its own"
        assert await drained(coordinator) == ["letter-1"]
        assert await drained(coordinator, CLEO) == ["letter-1"]
        await coordinator.send_message(ANN, BOB, letter())
        assert await coordinator.receive(BOB) is None, "done with, but remembered"
        await post.pass_time(60)
        await coordinator.send_message(ANN, BOB, letter())
        assert await drained(coordinator) == ["letter-1"]
        counted = coordinator.metrics.snapshot()  # type: ignore[attr-defined]
        assert counted["delivery"]["delivered_ok"] == 3

    office(story)


def test_what_was_refused_is_no_duplicate_later(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(dedup_window=60.0, queue_size=1)
        await coordinator.send_message(ANN, BOB, letter(1))
        assert not (await coordinator.send_message(ANN, BOB, letter(2))).delivered
        assert (await coordinator.send_message(ANN, BOB, letter(1))).delivered, "a duplicate needs no room"
        assert await drained(coordinator) == ["letter-1"]
        assert (await coordinator.send_message(ANN, BOB, letter(2))).delivered
        assert await drained(coordinator) == ["letter-2"]

    office(story)


def test_waiting_raises_a_message(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(aging=10.0)
        await coordinator.send_message(ANN, BOB, letter("low", priority=LOW))
        await post.pass_time(11)
        await coordinator.send_message(ANN, BOB, letter("normal", priority=NORMAL))
        await coordinator.send_message(ANN, BOB, letter("high", priority=HIGH))
        assert await drained(coordinator) == ["letter-high", "letter-low", "letter-normal"]
        await coordinator.send_message(ANN, BOB, letter("low", priority=LOW))
        await post.pass_time(21)
        for number in range(3):
            await coordinator.send_message(ANN, BOB, letter(number, priority=HIGH))
        assert (await drained(coordinator))[0] == "letter-low"

    office(story)


def test_without_aging_priorities_are_strict(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter("low", priority=LOW))
        await post.pass_time(100_000)
        await coordinator.send_message(ANN, BOB, letter("high", priority=HIGH))
        assert await drained(coordinator) == ["letter-high", "letter-low"]

    office(story)


def test_a_clock_that_goes_back_keeps_the_order_and_stalls_nothing(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter(1))
        await post.pass_time(-3600)
        await coordinator.send_message(ANN, BOB, letter(2))
        failing = await must_receive(coordinator)
        assert failing.message.message_id == "letter-1"
        assert await coordinator.nack(BOB, failing.token, FailureType.PERMANENT)
        assert await drained(coordinator) == ["letter-2"]

    office(story)
