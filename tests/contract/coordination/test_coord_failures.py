"""Messages that fail: retries, expired reservations, attempts that are spent."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.post_office import ANN, BOB, CLEO, LOW, Office, Post, drained, letter, must_receive

from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.models import FailureType


async def snapshot(coordinator: QueueCoordinator) -> dict[str, Any]:
    found: dict[str, Any] = coordinator.metrics.snapshot()  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("failure", [FailureType.TRANSIENT, FailureType.TIMEOUT])
def test_a_failed_message_comes_again_after_growing_waits_and_is_then_dead(
    office: Office, failure: FailureType
) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        for attempt, wait in enumerate([1.0, 2.0, 4.0]):
            received = await must_receive(coordinator)
            assert received.queue_message.delivery_attempts == attempt
            assert await coordinator.nack(BOB, received.token, failure, f"no {attempt}")
            assert await coordinator.receive(BOB) is None
            due = (await coordinator.statistics(BOB)).next_due_seconds
            assert due is not None and wait - 0.9 < due <= wait
            await post.pass_time(wait)
        last = await must_receive(coordinator)
        assert (last.queue_message.delivery_attempts, last.queue_message.last_error) == (3, "no 2")
        assert await coordinator.nack(BOB, last.token, failure, "no more")
        dead = await coordinator.dead_letters.peek(BOB)
        assert dead is not None and dead.queue_message is not None
        assert (dead.queue_message.delivery_attempts, dead.queue_message.last_error) == (4, "no more")
        assert dead.reason == f"{failure.value} failure: no more"
        counted = await snapshot(coordinator)
        assert (counted["retry"]["total_nacks"], counted["retry"]["total_retries_scheduled"]) == (4, 3)
        assert counted["retry"]["last_backoff_seconds"] == 4.0
        assert counted["retry"]["total_permanent_failures"] == 1
        assert counted["delivery"] == {"delivered_ok": 1, "delivered_error": 0}

    office(story)


def test_a_permanent_failure_is_dead_at_once(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        received = await must_receive(coordinator)
        with caplog.at_level(logging.ERROR):
            assert await coordinator.nack(BOB, received.token, FailureType.PERMANENT, "bad")
        assert "DLQ enqueue for bob:one message_id=letter-1 attempts=1 error=bad" in caplog.text
        found = await coordinator.statistics(BOB)
        assert (found.total, found.dead) == (0, 1)
        counted = await snapshot(coordinator)
        assert (counted["retry"]["total_nacks"], counted["retry"]["total_permanent_failures"]) == (1, 1)
        assert counted["gauges"]["dlq_lengths"] == {"bob:one": 1}

    office(story)


def test_no_retries_means_the_first_failure_is_the_last(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.configure(retry_attempts=0)
        await coordinator.send_message(ANN, BOB, letter())
        assert await coordinator.nack(BOB, (await must_receive(coordinator)).token)
        assert (await coordinator.statistics(BOB)).dead == 1
        dead = await coordinator.dead_letters.peek(BOB)
        assert dead is not None and dead.reason == "transient failure"

    office(story)


def test_the_backoff_has_a_limit_and_may_be_left_to_chance(office: Office) -> None:
    async def waits(coordinator: QueueCoordinator, post: Post, times: int) -> list[float]:
        await coordinator.send_message(ANN, BOB, letter())
        found = []
        for _ in range(times):
            await coordinator.nack(BOB, (await must_receive(coordinator)).token)
            found.append((await coordinator.statistics(BOB)).next_due_seconds or 0.0)
            await post.pass_time(1000)
        await drained(coordinator)
        return found

    async def story(post: Post) -> None:
        plain = post.coordinator(retry_attempts=50, backoff_base=10.0, backoff_factor=10.0, backoff_max=500.0)
        assert [round(wait, -1) for wait in await waits(plain, post, 4)] == [10, 100, 500, 500]
        chance = post.coordinator(
            retry_attempts=50, backoff_base=500.0, backoff_factor=1.0, backoff_max=500.0, jitter=0.5
        )
        found = await waits(chance, post, 20)
        assert all(249 <= wait <= 500 for wait in found)
        assert len({round(wait) for wait in found}) > 5
        none = post.coordinator(retry_attempts=2000, backoff_base=0.0, backoff_factor=1000.0)
        assert await waits(none, post, 200) == [0.0] * 200

    office(story)


def test_a_retry_goes_behind_what_is_there(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(backoff_base=0.0)
        for number in range(3):
            await coordinator.send_message(ANN, BOB, letter(number))
        await coordinator.nack(BOB, (await must_receive(coordinator)).token)
        assert await drained(coordinator) == ["letter-1", "letter-2", "letter-0"]

    office(story)


def test_an_expired_reservation_comes_back_by_itself_and_counts(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(retry_attempts=2)
        await coordinator.send_message(ANN, BOB, letter(priority=LOW))
        for attempts in range(3):
            received = await must_receive(coordinator, timeout=10)
            assert received.queue_message.delivery_attempts == attempts
            await post.pass_time(9)
            assert await coordinator.receive(BOB) is None
            await post.pass_time(1)
        assert await coordinator.receive(BOB) is None
        dead = await coordinator.dead_letters.peek(BOB)
        assert dead is not None and dead.queue_message is not None
        assert (dead.reason, dead.queue_message.delivery_attempts) == ("reservation expired", 3)
        assert dead.queue_message.last_error == "reservation expired"
        assert (await snapshot(coordinator))["retry"]["total_permanent_failures"] == 1

    office(story)


def test_after_the_deadline_a_token_does_nothing(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        received = await must_receive(coordinator, timeout=10)
        await post.pass_time(10)
        token = received.token
        assert not await coordinator.ack(BOB, token)
        assert not await coordinator.nack(BOB, token, FailureType.PERMANENT)
        assert not await coordinator.extend(BOB, token, 100)
        assert await coordinator.release(BOB, [token]) == [False]
        again = await must_receive(coordinator)
        assert again.queue_message.delivery_attempts == 1
        assert not await coordinator.ack(BOB, token), "the old token of a message that is held again"
        assert await coordinator.ack(BOB, again.token)

    office(story)


def test_extended_reservations_last_longer(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        received = await must_receive(coordinator, timeout=10)
        await post.pass_time(9)
        assert await coordinator.extend(BOB, received.token, 10.5)
        await post.pass_time(9)
        assert await coordinator.receive(BOB) is None
        assert await coordinator.extend_batch(BOB, [received.token, "res_unknown"], 5) == [True, False]
        assert await coordinator.ack(BOB, received.token)

    office(story)


def test_a_reservation_of_no_time_is_back_at_once(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        received = await must_receive(coordinator, timeout=0)
        assert not await coordinator.ack(BOB, received.token)
        assert await coordinator.recover_pending(BOB) == 1
        assert (await must_receive(coordinator, timeout=0.5)).queue_message.delivery_attempts == 1

    office(story)


def test_recovery_of_one_and_of_all(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for agent in (BOB, CLEO):
            for number in range(3):
                await coordinator.send_message(ANN, agent, letter(number))
            await coordinator.receive_batch(agent, 2, 10)
        assert await coordinator.recover_pending() == 0
        await post.pass_time(10, BOB, CLEO)
        assert await coordinator.recover_pending(BOB) == 2
        assert await coordinator.recover_pending() == 2
        assert await coordinator.recover_pending() == 0
        assert await drained(coordinator) == ["letter-2", "letter-0", "letter-1"]

    office(story)


def test_what_recovery_finds_spent_is_dead_and_not_counted(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(retry_attempts=0)
        await coordinator.send_message(ANN, BOB, letter())
        await must_receive(coordinator, timeout=10)
        await post.pass_time(10)
        assert await coordinator.recover_pending() == 0
        assert (await coordinator.statistics(BOB)).dead == 1

    office(story)


def test_metrics_that_raise_break_nothing(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            def fail(*values: object) -> None:
                raise RuntimeError(f"{name}{values}")

            return fail

    async def story(post: Post) -> None:
        coordinator = post.coordinator(metrics=Broken())
        assert (await coordinator.send_message(ANN, BOB, letter())).delivered
        assert await coordinator.nack(BOB, (await must_receive(coordinator)).token)
        await post.pass_time(1)
        assert await coordinator.nack(BOB, (await must_receive(coordinator)).token, FailureType.PERMANENT)
        assert not (await coordinator.send_message(ANN, BOB, letter(payload={"x": object()}))).delivered

    office(story)
    for name in (
        "inc_delivered_ok(1,)",
        "inc_retries_scheduled(1, 1.0)",
        "inc_nacks(1,)",
        "inc_permanent(1,)",
    ):
        assert name in caplog.text
