"""Dead letters: looked at, sent again, thrown away."""

from __future__ import annotations

import pytest
from support.post_office import ANN, BOB, CLEO, HIGH, Office, Post, drained, letter, must_receive

from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import CoordinatorInputError
from afl.coordination.models import FailureType


async def bury(coordinator: QueueCoordinator, *numbers: int) -> None:
    for number in numbers:
        await coordinator.send_message(
            ANN, BOB, letter(number, priority=HIGH, payload={"list": [], "n": number})
        )
        received = await must_receive(coordinator)
        await coordinator.nack(
            BOB, received.token, FailureType.PERMANENT, f'it broke: "{number}",\n"message":{{'
        )


def test_a_list_of_them_tells_why(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await bury(coordinator, 1, 2, 3)
        letters = await coordinator.dead_letters.list(BOB)
        assert [each.message_id for each in letters] == ["letter-1", "letter-2", "letter-3"]
        first = letters[0]
        assert first.queue_message is not None
        assert first.queue_message.last_error == 'it broke: "1",\n"message":{'
        assert first.reason == f"permanent failure: {first.queue_message.last_error}"
        assert (first.queue_message.priority, first.queue_message.delivery_attempts) == (HIGH, 1)
        assert first.queue_message.message.payload == {"list": [], "n": 1}
        assert first.dead_at.endswith("+00:00")
        assert len({each.dead_id for each in letters}) == 3
        assert [each.message_id for each in await coordinator.dead_letters.list(BOB, limit=1, start=1)] == [
            "letter-2"
        ]
        assert await coordinator.dead_letters.list(CLEO) == []
        assert await coordinator.queues() == [BOB], "a queue with dead letters only is a queue"

    office(story)


def test_one_is_found_by_its_own_id_or_the_messages(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await bury(coordinator, *range(150))
        letters = coordinator.dead_letters
        found = await letters.peek(BOB, "letter-149")
        assert found is not None
        assert await letters.peek(BOB, found.dead_id) == found
        oldest = await letters.peek(BOB)
        assert oldest is not None and oldest.message_id == "letter-0"
        assert await letters.peek(BOB, "nothing") is None
        assert await letters.peek(CLEO) is None

    office(story)


def test_requeued_ones_have_all_attempts_ahead_of_them(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await bury(coordinator, 1, 2, 3, 4)
        second = (await coordinator.dead_letters.list(BOB))[1]
        assert await coordinator.dead_letters.requeue(BOB, second.dead_id) == 1
        assert await coordinator.dead_letters.requeue(BOB, second.dead_id) == 0
        received = await must_receive(coordinator)
        queued = received.queue_message
        assert (queued.message, queued.priority) == (second.queue_message.message, HIGH)  # type: ignore[union-attr]
        assert (queued.delivery_attempts, queued.last_error) == (0, None)
        await coordinator.ack(BOB, received.token)
        assert await coordinator.dead_letters.requeue(BOB, limit=2) == 2
        assert await drained(coordinator) == ["letter-1", "letter-3"]
        assert await coordinator.dead_letters.requeue(BOB) == 1
        assert await drained(coordinator) == ["letter-4"]
        assert await coordinator.queues() == []

    office(story)


def test_one_whose_error_is_not_text_is_requeued(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter(1))
        received = await must_receive(coordinator)
        await coordinator.nack(BOB, received.token, FailureType.PERMANENT, "no file \udce9t\udce9.csv")
        assert "error=no file \\udce9t\\udce9.csv" in caplog.text
        (found,) = await coordinator.dead_letters.list(BOB)
        assert found.reason == "permanent failure: no file \\udce9t\\udce9.csv"
        assert await coordinator.dead_letters.requeue(BOB, found.dead_id) == 1
        assert await drained(coordinator) == ["letter-1"]

    office(story)


def test_requeueing_stops_at_a_full_queue(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(queue_size=2)
        await bury(coordinator, 1, 2, 3)
        await coordinator.send_message(ANN, BOB, letter(0))
        assert await coordinator.dead_letters.requeue(BOB) == 1
        assert [each.message_id for each in await coordinator.dead_letters.list(BOB)] == [
            "letter-2",
            "letter-3",
        ]

    office(story)


def test_purged_ones_are_gone(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await bury(coordinator, 1, 2, 3)
        second = (await coordinator.dead_letters.list(BOB))[1]
        assert await coordinator.dead_letters.purge(BOB, second.dead_id) == 1
        assert await coordinator.dead_letters.purge(BOB, second.dead_id) == 0
        assert await coordinator.dead_letters.purge(BOB) == 2
        assert await coordinator.dead_letters.purge(BOB) == 0
        assert await coordinator.queues() == []
        with pytest.raises(CoordinatorInputError, match="dead_id is empty"):
            await coordinator.dead_letters.purge(BOB, "")

    office(story)


def test_their_number_is_limited_and_the_newest_stay(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(dead_letter_limit=2)
        await bury(coordinator, 1, 2, 3)
        assert [each.message_id for each in await coordinator.dead_letters.list(BOB)] == [
            "letter-2",
            "letter-3",
        ]

    office(story)
