"""Requests that wait for their responses."""

from __future__ import annotations

import asyncio
import re

import pytest
from support.post_office import ANN, BOB, CLEO, HIGH, Office, Post, drained, letter

from afl.coordination.consumer import Consumer, Handler
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import (
    CoordinatorClosed,
    MessageCoordinatorError,
    PermanentFailure,
    RequestFailed,
    RequestRefused,
    RequestTimeout,
)
from afl.coordination.models import MessageType, ReceivedMessage


async def serve(coordinator: QueueCoordinator, count: int) -> None:
    """Answers so many requests with the double, the last that came first."""
    requests: list[ReceivedMessage] = []
    while len(requests) < count:
        requests += await coordinator.receive_batch(BOB, 100, 60, wait=60)
    for received in reversed(requests):
        assert (await coordinator.respond(received, {"double": received.message.payload["n"] * 2})).delivered
        assert await coordinator.ack(BOB, received.token)


def test_each_gets_the_response_to_its_own_request(office: Office) -> None:
    async def story(post: Post) -> None:
        asking, answering = post.coordinator(), post.coordinator()
        server = asyncio.create_task(serve(answering, 30))
        questions = [asking.request(ANN, BOB, {"n": number}, timeout=60) for number in range(30)]
        answers = await asyncio.gather(*questions)
        await server
        assert [answer.payload for answer in answers] == [{"double": number * 2} for number in range(30)]
        answer = answers[0]
        assert (answer.message_type, answer.sender) == (MessageType.RESPONSE, BOB)
        assert answer.correlation_id is not None
        assert await asking.queues() == [], "the inbox of the responses is in no index"

    office(story)


def test_a_request_carries_what_its_response_needs(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        task = asyncio.create_task(coordinator.request(ANN, BOB, {"n": 1}, timeout=60, priority=HIGH))
        received = await coordinator.receive(BOB, 60, wait=60)
        assert received is not None
        message = received.message
        assert (message.message_type, message.priority, message.sender) == (MessageType.REQUEST, HIGH, ANN)
        assert message.correlation_id == message.message_id and message.reply_to is not None
        await coordinator.respond(message, {}, sender=CLEO)
        assert (await task).sender == CLEO

    office(story)


def test_no_response_in_time(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        with pytest.raises(RequestTimeout, match=r"no response from bob:one within 0\.05 s") as caught:
            await coordinator.request(ANN, BOB, {}, timeout=0.05)
        assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, MessageCoordinatorError)
        await post.pass_time(1)
        assert await coordinator.receive(BOB) is None, "nobody should work on it any more"

    office(story)


def test_a_response_that_comes_too_late_is_dropped(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        task = asyncio.create_task(coordinator.request(ANN, BOB, {"n": 1}, timeout=60))
        late = await coordinator.receive(BOB, 60, wait=60)
        assert late is not None
        task.cancel()
        await asyncio.wait([task])
        assert (await coordinator.respond(late, {"late": True})).delivered
        server = asyncio.create_task(serve(coordinator, 1))
        await coordinator.ack(BOB, late.token)
        answer = await coordinator.request(ANN, BOB, {"n": 4}, timeout=60)
        await server
        assert answer.payload == {"double": 8}

    office(story)


def test_a_request_that_is_not_taken(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(queue_size=1)
        await coordinator.send_message(ANN, BOB, letter())
        with pytest.raises(RequestRefused, match="request to bob:one was refused: queue full"):
            await coordinator.request(ANN, BOB, {}, timeout=60)
        with pytest.raises(RequestRefused, match="not plain JSON"):
            await coordinator.request(ANN, CLEO, {"x": object()}, timeout=60)

    office(story)


def test_a_message_nobody_waits_on_is_answered_into_the_senders_queue(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter(kind=MessageType.REQUEST))
        received = await coordinator.receive(BOB, 60)
        assert received is not None
        await coordinator.respond(received, {"yes": 1})
        answer = await coordinator.receive(ANN, 60)
        assert answer is not None
        assert (answer.message.correlation_id, answer.message.payload) == ("letter-1", {"yes": 1})

    office(story)


def test_closing_tells_those_who_wait(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        task = asyncio.create_task(coordinator.request(ANN, BOB, {}, timeout=60))
        assert await coordinator.receive(BOB, 60, wait=60) is not None
        await coordinator.close()
        with pytest.raises(CoordinatorClosed):
            await task

    office(story)


async def _sum(received: ReceivedMessage) -> dict[str, int]:
    return {"sum": sum(received.message.payload["numbers"])}


def _plain_sum(received: ReceivedMessage) -> dict[str, int]:
    return {"sum": sum(received.message.payload["numbers"])}


@pytest.mark.parametrize("handler", [_sum, _plain_sum])
def test_a_consumer_answers_with_what_its_handler_returns(office: Office, handler: Handler) -> None:
    async def story(post: Post) -> None:
        asking, answering = post.coordinator(), post.coordinator()
        async with Consumer(answering, BOB, handler, concurrency=4):
            questions = [asking.request(ANN, BOB, {"numbers": [n, n]}, timeout=60) for n in range(10)]
            answers = await asyncio.gather(*questions)
        assert [answer.payload for answer in answers] == [{"sum": 2 * n} for n in range(10)]
        assert await drained(asking) == []

    office(story)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (PermanentFailure("no such page"), "PermanentFailure: no such page"),
        (ValueError("not now"), "ValueError: not now"),
        ({"sum": {4}}, "the response was refused: .*set"),
    ],
)
def test_a_request_that_becomes_a_dead_letter_is_told_to_its_requester(
    office: Office, outcome: Exception | dict[str, object], told: str
) -> None:
    async def story(post: Post) -> None:
        asking, answering = post.coordinator(), post.coordinator(retry_attempts=1, backoff_base=0.0)
        attempts = []

        async def handle(received: ReceivedMessage) -> object:
            attempts.append(received.token)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        async with Consumer(answering, BOB, handle):
            with pytest.raises(RequestFailed, match=f"request to bob:one failed: {told}"):
                await asking.request(ANN, BOB, {}, timeout=60)
        assert len(attempts) == (1 if isinstance(outcome, PermanentFailure) else 2)
        assert len(await asking.dead_letters.list(BOB)) == 1

    office(story)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ([4], "request .* of bob:one gets no response: its handler returned a list, and only a dict is sent"),
        ({"sum": {4}}, "message .* of bob:one failed, attempt 1: the response was refused: .*set"),
    ],
)
def test_a_response_that_cannot_be_sent_is_logged(
    office: Office, caplog: pytest.LogCaptureFixture, returned: object, told: str
) -> None:
    async def story(post: Post) -> None:
        asking, answering = post.coordinator(), post.coordinator(retry_attempts=0)
        await asking.send_message(ANN, BOB, letter(kind=MessageType.REQUEST))
        handled = asyncio.Event()

        async def handle(received: ReceivedMessage) -> object:
            handled.set()
            return returned

        async with Consumer(answering, BOB, handle):
            await handled.wait()
        assert await drained(asking) == []

    office(story)
    assert re.search(told, caplog.text)
