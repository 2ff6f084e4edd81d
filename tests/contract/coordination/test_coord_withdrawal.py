"""A message taken back: from its line, from the hands of whoever works on it, and before it was sent."""

from __future__ import annotations

import asyncio

import pytest
from support.post_office import ANN, BOB, Office, Post, drained, letter, must_receive

from afl.coordination import Consumer
from afl.coordination.errors import CoordinatorInputError
from afl.coordination.models import AgentId, MessageType, ReceivedMessage

WINDOW = 3600.0


def test_what_waits_is_gone_and_the_others_stay(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number in (1, 11, 2):
            await coordinator.send_message(ANN, BOB, letter(number))
        await coordinator.send_message(ANN, BOB, letter(3), delay_seconds=60)
        assert await coordinator.withdraw(BOB, "letter-1")
        assert await coordinator.withdraw(BOB, "letter-3")
        assert not await coordinator.withdraw(BOB, "letter-1")
        assert await drained(coordinator) == ["letter-11", "letter-2"]
        assert (await coordinator.statistics(BOB)).total == 0
        events = [(line.event, line.message_id) for line in await coordinator.audit_trail(BOB)]
        assert ("withdrawn", "letter-1") in events

    office(story)


def test_a_withdrawn_reservation_does_nothing_any_more(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        received = await must_receive(coordinator)
        assert await coordinator.withdraw(BOB, "letter-1")
        assert not await coordinator.extend(BOB, received.token, 60)
        assert not await coordinator.nack(BOB, received.token)
        assert not await coordinator.ack(BOB, received.token)
        await post.pass_time(3600)
        assert await coordinator.receive(BOB) is None
        assert (await coordinator.statistics(BOB)).total == 0

    office(story)


def test_an_id_that_was_withdrawn_is_not_let_in_again(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(dedup_window=WINDOW)
        assert not await coordinator.withdraw(BOB, "letter-1")
        assert (await coordinator.send_message(ANN, BOB, letter())).delivered
        assert await drained(coordinator) == []
        await post.pass_time(WINDOW + 1)
        await coordinator.send_message(ANN, BOB, letter())
        assert await drained(coordinator) == ["letter-1"]

    office(story)


def test_who_works_on_it_is_stopped(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        begun, stopped = asyncio.Event(), asyncio.Event()

        async def work(received: ReceivedMessage) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async with Consumer(coordinator, BOB, work, visibility_timeout=0.3):
            await coordinator.send_message(ANN, BOB, letter())
            await begun.wait()
            assert await coordinator.withdraw(BOB, "letter-1")
            await stopped.wait()

    office(story)


def test_an_answer_that_is_refused_is_not_forgotten(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(queue_size=1, retry_attempts=0)
        full = AgentId(type="full")

        async def work(received: ReceivedMessage) -> dict[str, int]:
            return {"n": 1}

        await coordinator.send_message(BOB, full, letter("old"))
        asked = letter(kind=MessageType.REQUEST)
        async with Consumer(coordinator, BOB, work):
            await coordinator.send_message(full, BOB, asked)
            async with asyncio.timeout(60):
                while not (found := await coordinator.dead_letters.list(BOB)):
                    await asyncio.sleep(0.01)
        assert "queue full" in found[0].reason

    office(story)


def test_no_id_is_an_error(office: Office) -> None:
    async def story(post: Post) -> None:
        with pytest.raises(CoordinatorInputError, match="message_id is empty"):
            await post.coordinator().withdraw(BOB, "")

    office(story)
