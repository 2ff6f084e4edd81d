"""A receive that blocks: woken by what comes, not by looking again and again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.post_office import ANN, BOB, CLEO, Office, Post, letter, must_receive

from afl.coordination.broker import Waiter, Waiters
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import CoordinatorClosed
from afl.coordination.models import ReceivedMessage

NEVER = 3600.0  # nobody looks again by himself within a test


def waiting(coordinator: QueueCoordinator, **more: Any) -> asyncio.Task[ReceivedMessage | None]:
    return asyncio.create_task(coordinator.receive(BOB, 60, wait=NEVER, **more))


_sleepers: list[Waiter] = []


@pytest.fixture(autouse=True)
def _noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who wait are in `_sleepers`."""
    wait = Waiter.wait

    async def noted(waiter: Waiter, seconds: float, due: float | None = None) -> None:
        _sleepers.append(waiter)
        try:
            await wait(waiter, seconds, due)
        finally:
            _sleepers.remove(waiter)

    monkeypatch.setattr(Waiter, "wait", noted)


async def asleep(count: int) -> None:
    """So many have looked in vain and wait to be notified."""
    async with asyncio.timeout(60):
        while len(_sleepers) < count:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("same", [True, False])
def test_a_message_wakes_the_one_who_waits(office: Office, same: bool) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER)
        sender = coordinator if same else post.coordinator()
        task = waiting(coordinator)
        await asleep(1)
        await sender.send_message(ANN, CLEO, letter(0))
        await sender.send_message(ANN, BOB, letter(1))
        received = await asyncio.wait_for(task, 60)
        assert received is not None and received.message.message_id == "letter-1"

    office(story)


def test_closing_ends_receivers_and_streams(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=3600.0)
        streaming = asyncio.Event()

        async def stream() -> list[str]:
            found = []
            async for received in coordinator.stream(BOB, 60):
                found.append(received.message.message_id)
                await coordinator.ack(BOB, received.token)
                streaming.set()
            return found

        before = asyncio.all_tasks()
        receiving = asyncio.create_task(coordinator.receive(ANN, 60, wait=3600))
        reading = asyncio.create_task(stream())
        await coordinator.send_message(ANN, BOB, letter())
        await streaming.wait()
        assert await coordinator.receive(CLEO, 60, wait=0.01) is None  # the others wait by now
        await coordinator.close()
        assert await asyncio.wait_for(reading, 30) == ["letter-1"]
        with pytest.raises(CoordinatorClosed):
            await asyncio.wait_for(receiving, 30)
        assert asyncio.all_tasks() == before

    office(story)


def test_what_is_there_is_not_waited_for(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER)
        await coordinator.send_message(ANN, BOB, letter())
        assert await asyncio.wait_for(coordinator.receive_batch(BOB, 5, 60, wait=NEVER), 60)
        assert await coordinator.receive(BOB, wait=0.01) is None

    office(story)


def test_each_message_wakes_one(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER)
        tasks = [waiting(coordinator) for _ in range(8)]
        await asleep(8)
        for number in range(8):
            await coordinator.send_message(ANN, BOB, letter(number))
        received = await asyncio.wait_for(asyncio.gather(*tasks), 60)
        ids = sorted(each.message.message_id for each in received if each is not None)
        assert ids == [f"letter-{number}" for number in range(8)]

    office(story)


def test_a_ring_is_passed_on_by_one_who_gives_up(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER)
        for _ in range(20):
            first, second = waiting(coordinator), waiting(coordinator)
            await asleep(2)
            send = asyncio.create_task(coordinator.send_message(ANN, BOB, letter()))
            await asyncio.sleep(0)
            first.cancel()
            await send
            received = await asyncio.wait_for(second, 60) if not first.done() or first.cancelled() else None
            await asyncio.wait([first])
            if received is None:
                assert not first.cancelled()
                received = first.result()
                second.cancel()
                await asyncio.wait([second])
            assert received is not None
            assert await coordinator.ack(BOB, received.token)

    office(story)


def test_a_delayed_message_wakes_when_it_is_due(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER)
        task = waiting(coordinator)
        await asleep(1)
        await coordinator.send_message(ANN, BOB, letter(), delay_seconds=0.05)
        assert await asyncio.wait_for(task, 60) is not None

    office(story)


def test_a_retry_wakes_when_it_is_due(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER, backoff_base=0.05)
        await coordinator.send_message(ANN, BOB, letter())
        failing = await must_receive(coordinator)
        task = waiting(coordinator)
        await asleep(1)
        await coordinator.nack(BOB, failing.token)
        received = await asyncio.wait_for(task, 60)
        assert received is not None and received.queue_message.delivery_attempts == 1

    office(story)


def test_an_expired_reservation_wakes(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER)
        await coordinator.send_message(ANN, BOB, letter())
        await must_receive(coordinator, timeout=0.05)
        received = await asyncio.wait_for(waiting(coordinator), 60)
        assert received is not None and received.queue_message.delivery_attempts == 1

    office(story)


@pytest.mark.parametrize("how", ["release", "requeue", "recover"])
def test_what_comes_back_wakes(office: Office, how: str) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER, retry_attempts=0 if how == "requeue" else 3)
        await coordinator.send_message(ANN, BOB, letter())
        held = await must_receive(coordinator, timeout=NEVER)
        if how == "requeue":
            await coordinator.nack(BOB, held.token)
        task = waiting(coordinator)
        await asleep(1)
        if how == "release":
            await coordinator.release(BOB, [held.token])
        elif how == "requeue":
            await coordinator.dead_letters.requeue(BOB)
        else:
            await post.pass_time(NEVER)
            assert await coordinator.recover_pending() == 1
        assert await asyncio.wait_for(task, 60) is not None

    office(story)


def test_a_missed_ring_costs_the_fallback_interval_only(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=0.02)
        task = asyncio.create_task(coordinator.receive(BOB, 60, wait=NEVER))
        await asleep(1)
        monkeypatch.setattr(Waiters, "notify", lambda waiters, queue, count: None)
        await coordinator.send_message(ANN, BOB, letter())
        assert await asyncio.wait_for(task, 60) is not None

    office(story)


def test_messages_as_a_stream(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=0.05)
        for number in range(3):
            await coordinator.send_message(ANN, BOB, letter(number))
        seen = []
        async for received in coordinator.stream(BOB, 60):
            seen.append(received.message.message_id)
            assert await coordinator.ack(BOB, received.token)
            if len(seen) == 3:
                asyncio.get_running_loop().call_soon(
                    asyncio.ensure_future, coordinator.send_message(ANN, BOB, letter(3))
                )
            if len(seen) == 4:
                break
        assert seen == [f"letter-{number}" for number in range(4)]

    office(story)


def test_a_canceled_receive_loses_nothing(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(retry_attempts=0)
        await coordinator.send_message(ANN, BOB, letter())
        for turns in range(12):
            task = asyncio.create_task(coordinator.receive(BOB, NEVER))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (received := task.result()) is not None:
                await coordinator.release(BOB, [received.token])
            again = await asyncio.wait_for(coordinator.receive(BOB, NEVER, wait=NEVER), 60)
            assert again is not None and again.queue_message.delivery_attempts == 0
            assert await coordinator.release(BOB, [again.token]) == [True]

    office(story)


def test_all_who_wait_get_what_is_due_later(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER)
        tasks = [waiting(coordinator) for _ in range(3)]
        await asleep(3)
        for number in range(3):
            await coordinator.send_message(ANN, BOB, letter(number), delay_seconds=0.05 * (number + 1))
        received = await asyncio.wait_for(asyncio.gather(*tasks), 60)
        assert {each.message.message_id for each in received if each} == {"letter-0", "letter-1", "letter-2"}

    office(story)


def test_who_leaves_early_tells_another_what_is_due(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(fallback_interval=NEVER)
        first = waiting(coordinator)
        await asleep(1)
        second = waiting(coordinator)
        await asleep(2)
        await post.coordinator().send_message(ANN, BOB, letter(), delay_seconds=0.2)
        async with asyncio.timeout(60):
            while not any(each.due < float("inf") for each in _sleepers):
                await asyncio.sleep(0.001)
        first.cancel()
        received = await asyncio.wait_for(second, 60)
        assert received is not None

    office(story)
