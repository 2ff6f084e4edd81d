"""The worker: concurrency, heartbeats, failures, an end that loses nothing."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.post_office import ANN, BOB, Office, Post, drained, letter, must_receive

from afl.coordination.consumer import Consumer
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import CoordinatorInputError, CoordinatorStoreError, PermanentFailure
from afl.coordination.models import ReceivedMessage


async def emptied(coordinator: QueueCoordinator) -> None:
    async with asyncio.timeout(60):
        while (await coordinator.statistics(BOB)).total:
            await asyncio.sleep(0.005)


def test_it_works_on_as_many_at_a_time_as_it_may(office: Office) -> None:
    running, most, seen = 0, 0, []

    async def handler(received: ReceivedMessage) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        seen.append(received.message.message_id)

    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number in range(40):
            await coordinator.send_message(ANN, BOB, letter(number))
        async with Consumer(coordinator, BOB, handler, concurrency=4):
            await emptied(coordinator)
        assert sorted(seen) == sorted(f"letter-{number}" for number in range(40))
        assert most == 4

    office(story)


def test_plain_functions_run_side_by_side_in_threads(office: Office) -> None:
    many = 40
    together = threading.Barrier(many, timeout=60)

    def handler(received: ReceivedMessage) -> None:
        together.wait()

    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number in range(many):
            await coordinator.send_message(ANN, BOB, letter(number))
        async with Consumer(coordinator, BOB, handler, concurrency=many):
            await emptied(coordinator)
        assert (await coordinator.statistics(BOB)).dead == 0

    office(story)


def test_what_a_handler_raises_decides(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    tries: list[str] = []

    async def handler(received: ReceivedMessage) -> None:
        tries.append(received.message.message_id)
        if received.message.payload["n"] == "poison":
            raise PermanentFailure("cannot be")
        if received.message.payload["n"] == "slow":
            raise TimeoutError("took long")
        if received.queue_message.delivery_attempts < 2:
            raise ValueError("not yet")

    async def story(post: Post) -> None:
        coordinator = post.coordinator(backoff_base=0.001, retry_attempts=2)
        for number in ("poison", "slow", "flaky"):
            await coordinator.send_message(ANN, BOB, letter(number))
        async with Consumer(coordinator, BOB, handler):
            await emptied(coordinator)
        assert sorted(tries) == ["letter-flaky"] * 3 + ["letter-poison"] + ["letter-slow"] * 3
        reasons = {each.message_id: each.reason for each in await coordinator.dead_letters.list(BOB)}
        assert reasons == {
            "letter-poison": "permanent failure: PermanentFailure: cannot be",
            "letter-slow": "timeout failure: TimeoutError: took long",
        }

    office(story)
    assert "message 'letter-flaky' of bob:one failed, attempt 2\nTraceback" in caplog.text
    assert "ValueError: not yet" in caplog.text


def test_a_handler_may_take_longer_than_a_reservation(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(retry_attempts=0)
        extended = asyncio.Event()
        count = 0
        really = coordinator.extend_batch

        async def counted(*arguments: object, **more: object) -> list[bool]:
            nonlocal count
            count += 1
            if count == 6:
                extended.set()
            return await really(*arguments, **more)  # type: ignore[arg-type]

        coordinator.extend_batch = counted  # type: ignore[method-assign,assignment]

        async def handler(received: ReceivedMessage) -> None:
            await extended.wait()

        await coordinator.send_message(ANN, BOB, letter())
        async with Consumer(coordinator, BOB, handler, visibility_timeout=0.6):
            await emptied(coordinator)
        assert (await coordinator.statistics(BOB)).dead == 0

    office(story)


def test_a_handler_that_lost_its_message_is_canceled(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        began, canceled = asyncio.Event(), asyncio.Event()

        async def handler(received: ReceivedMessage) -> None:
            if received.queue_message.delivery_attempts:
                return
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                canceled.set()
                raise

        await coordinator.send_message(ANN, BOB, letter())
        async with Consumer(coordinator, BOB, handler, visibility_timeout=0.3):
            await began.wait()
            await post.pass_time(1)
            async with asyncio.timeout(60):
                await canceled.wait()
            await emptied(coordinator)

    office(story)


def test_stopping_lets_handlers_end(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        began, go_on = asyncio.Event(), asyncio.Event()

        async def handler(received: ReceivedMessage) -> None:
            began.set()
            await go_on.wait()

        for number in range(3):
            await coordinator.send_message(ANN, BOB, letter(number))
        consumer = Consumer(coordinator, BOB, handler, concurrency=2)
        run = asyncio.create_task(consumer.run())
        await began.wait()
        stop = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait_for(stop, 60)
        await asyncio.wait_for(run, 60)
        assert consumer.in_hand == 0
        assert await drained(coordinator) == ["letter-2"]

    office(story)


def test_what_is_unfinished_after_the_grace_goes_back_uncounted(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        began = asyncio.Event()

        async def handler(received: ReceivedMessage) -> None:
            began.set()
            await asyncio.Event().wait()

        await coordinator.send_message(ANN, BOB, letter())
        consumer = Consumer(coordinator, BOB, handler)
        consumer.start()
        await began.wait()
        await consumer.stop(grace=0.01)
        again = await must_receive(coordinator)
        assert again.queue_message.delivery_attempts == 0

    office(story)


def test_a_canceled_run_gives_its_messages_back(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        began = asyncio.Event()

        async def handler(received: ReceivedMessage) -> None:
            began.set()
            await asyncio.Event().wait()

        await coordinator.send_message(ANN, BOB, letter())
        run = asyncio.create_task(Consumer(coordinator, BOB, handler).run())
        await began.wait()
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
        assert (await must_receive(coordinator)).queue_message.delivery_attempts == 0

    office(story)


def test_bad_values() -> None:
    from afl.coordination.memory_broker import InMemoryMessageCoordinator

    async def handler(received: ReceivedMessage) -> None: ...

    async def story() -> None:
        coordinator = InMemoryMessageCoordinator()
        with pytest.raises(CoordinatorInputError, match="concurrency"):
            Consumer(coordinator, BOB, handler, concurrency=0)
        with pytest.raises(CoordinatorInputError, match="visibility_timeout"):
            Consumer(coordinator, BOB, handler, visibility_timeout=0)
        consumer = Consumer(coordinator, BOB, handler)
        consumer.start()
        with pytest.raises(CoordinatorInputError, match="started already"):
            consumer.start()
        await consumer.stop()
        await coordinator.close()

    asyncio.run(story())


def test_what_may_have_killed_a_consumer_is_worked_on_alone(office: Office) -> None:
    together: list[set[str]] = []
    running: set[str] = set()

    async def handler(received: ReceivedMessage) -> None:
        running.add(received.message.message_id)
        together.append(set(running))
        await asyncio.sleep(0.002)
        running.discard(received.message.message_id)

    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number in range(3):
            await coordinator.send_message(ANN, BOB, letter(number))
        assert len(await coordinator.receive_batch(BOB, 3, 0)) == 3
        for number in range(3, 20):
            await coordinator.send_message(ANN, BOB, letter(number))
        async with Consumer(coordinator, BOB, handler, concurrency=4):
            await emptied(coordinator)
        suspects = {f"letter-{number}" for number in range(3)}
        assert all(len(group) == 1 for group in together if group & suspects)
        assert max(map(len, together)) == 4

    office(story)


def test_a_store_that_refuses_for_a_while_ends_no_consumer(office: Office) -> None:
    seen = asyncio.Event()

    async def handler(received: ReceivedMessage) -> None:
        seen.set()

    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        really, refusals = coordinator.receive_batch, [1, 2]

        async def reluctant(*arguments: object, **more: object) -> list[ReceivedMessage]:
            if refusals:
                refusals.pop()
                raise CoordinatorStoreError("no memory")
            return await really(*arguments, **more)  # type: ignore[arg-type]

        coordinator.receive_batch = reluctant  # type: ignore[method-assign,assignment]
        await coordinator.send_message(ANN, BOB, letter())
        async with Consumer(coordinator, BOB, handler):
            await asyncio.wait_for(seen.wait(), 60)
        assert not refusals

    office(story)


def test_an_end_that_fails_leaves_nothing_running(office: Office) -> None:
    begun = asyncio.Event()

    async def handler(received: ReceivedMessage) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def refuse(*arguments: object) -> list[bool]:
        raise CoordinatorStoreError("no memory")

    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        coordinator.release = refuse  # type: ignore[method-assign,assignment]
        assert await coordinator.receive(BOB, wait=0.01) is None  # it is connected, with tasks of its own
        before = asyncio.all_tasks()
        await coordinator.send_message(ANN, BOB, letter())
        consumer = Consumer(coordinator, BOB, handler)
        consumer.start()
        await asyncio.wait_for(begun.wait(), 60)
        assert asyncio.all_tasks() - before
        with pytest.raises(CoordinatorStoreError):
            await consumer.stop(grace=0.0)
        assert asyncio.all_tasks() - before == set()

    office(story)
