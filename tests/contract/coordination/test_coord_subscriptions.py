"""Subscriptions: which types a subscriber is handed. What it is not handed waits, or others receive it."""

from __future__ import annotations

import asyncio

import pytest
from support.post_office import ANN, BOB, CLEO, HIGH, LOW, Office, Post, drained, letter, must_receive, tell

from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import AgentNameError, CoordinatorInputError
from afl.coordination.models import AgentId, MessageType, ReceivedMessage

EVENT, REQUEST, RESPONSE = MessageType.EVENT, MessageType.REQUEST, MessageType.RESPONSE
NEVER = 3600.0  # nobody looks again by himself within a test


def test_a_subscriber_is_handed_what_it_subscribed_to_and_the_rest_waits(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        subscription = coordinator.subscribe_to_messages(BOB, [REQUEST])
        assert subscription.subscription_id.startswith("sub_") and len(subscription.subscription_id) == 16
        assert (subscription.agent_id, subscription.message_types) == (BOB, [REQUEST])
        sent = [await coordinator.send_message(ANN, BOB, letter(1, kind=EVENT))]
        sent += [await coordinator.send_message(ANN, BOB, letter(2, kind=REQUEST))]
        sent += await coordinator.broadcast_message(ANN, letter(3, kind=EVENT), [BOB, CLEO])
        assert [(each.delivered, each.error) for each in sent] == [(True, None)] * 4
        assert await drained(coordinator) == ["letter-2"]
        assert (await coordinator.statistics(BOB)).ready == 2
        assert await coordinator.unsubscribe(subscription)
        assert await drained(coordinator) == ["letter-1", "letter-3"]
        counted = coordinator.metrics.snapshot()  # type: ignore[attr-defined]
        assert counted["delivery"] == {"delivered_ok": 4, "delivered_error": 0}

    office(story)


def test_others_receive_what_a_subscriber_is_not_handed(office: Office) -> None:
    async def story(post: Post) -> None:
        requests, events, all_types = post.coordinator(), post.coordinator(), post.coordinator()
        await requests.subscribe(BOB, [REQUEST])
        await events.subscribe(BOB, [EVENT])
        for number, kind in enumerate([EVENT, REQUEST, RESPONSE]):
            await requests.send_message(ANN, BOB, letter(number, kind=kind))
        assert await drained(requests) == ["letter-1"]
        assert await drained(events) == ["letter-0"]
        assert await drained(all_types) == ["letter-2"]

    office(story)


def test_subscriptions_add_up_and_end_whoever_ends_them(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator, other = post.coordinator(), post.coordinator()
        first = await coordinator.subscribe(BOB, [REQUEST])
        second = await coordinator.subscribe(BOB, [REQUEST, RESPONSE])

        async def handed() -> list[str]:
            for kind in (EVENT, REQUEST, RESPONSE):
                await other.send_message(ANN, BOB, letter(kind.value, kind=kind))
            found = await drained(coordinator)
            await drained(other)
            return found

        assert await handed() == ["letter-request", "letter-response"]
        assert await other.unsubscribe(first)
        assert await handed() == ["letter-request", "letter-response"]
        assert not await other.unsubscribe(first)
        assert await coordinator.unsubscribe(second)
        assert await handed() == ["letter-event", "letter-request", "letter-response"]

    office(story)


def test_what_is_in_the_queue_is_selected_as_well(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter(1, kind=EVENT))
        await coordinator.send_message(ANN, BOB, letter(2, kind=REQUEST))
        await coordinator.subscribe(BOB, [REQUEST])
        received = await must_receive(coordinator)
        assert received.message.message_id == "letter-2"
        assert await coordinator.nack(BOB, received.token, error="no")
        await post.pass_time(60)
        assert await drained(coordinator) == ["letter-2"]
        assert (await coordinator.statistics(BOB)).ready == 1

    office(story)


@pytest.mark.parametrize("aging", [0.0, 1.0])
def test_order_and_priority_hold_among_those_that_are_handed(office: Office, aging: float) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(aging=aging)
        await coordinator.subscribe(BOB, [REQUEST])
        for number in range(250):
            await coordinator.send_message(ANN, BOB, letter(number, kind=EVENT, priority=HIGH))
        for number, priority in ((300, LOW), (301, HIGH), (302, LOW), (303, HIGH)):
            await coordinator.send_message(ANN, BOB, letter(number, kind=REQUEST, priority=priority))
        received = await coordinator.receive_batch(BOB, 3, 60)
        ids = [each.message.message_id for each in received]
        assert ids == ["letter-301", "letter-303", "letter-300"]
        assert await drained(coordinator) == ["letter-302"]

    office(story)


def test_a_payload_that_looks_like_a_type_is_none(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.subscribe(BOB, [REQUEST])
        tricky = {"message_type": "request", 'a","message_type":"request': 1}
        sent = letter('","message_type":"request","x', kind=EVENT, payload=tricky)
        assert (await coordinator.send_message(ANN, BOB, sent)).delivered
        assert await drained(coordinator) == []

    office(story)


def blocked(coordinator: QueueCoordinator) -> asyncio.Task[ReceivedMessage | None]:
    return asyncio.create_task(coordinator.receive(BOB, 60, wait=NEVER))


def test_a_blocked_receive_is_woken_by_what_it_is_handed_only(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator, other = (post.coordinator(fallback_interval=NEVER) for _ in range(2))
        await coordinator.subscribe(BOB, [REQUEST])
        waits, waits_for_all = blocked(coordinator), blocked(other)
        await other.send_message(ANN, BOB, letter(1, kind=EVENT))
        event = await asyncio.wait_for(waits_for_all, 60)
        assert event is not None and event.message.message_id == "letter-1"
        assert not waits.done()
        await other.send_message(ANN, BOB, letter(2, kind=EVENT))
        await other.send_message(ANN, BOB, letter(3, kind=REQUEST))
        request = await asyncio.wait_for(waits, 60)
        assert request is not None and request.message.message_id == "letter-3"

    office(story)


def test_the_end_of_a_subscription_wakes_a_blocked_receive(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator, other = (post.coordinator(fallback_interval=NEVER) for _ in range(2))
        subscription = await coordinator.subscribe(BOB, [REQUEST])
        await other.send_message(ANN, BOB, letter(1, kind=EVENT))
        waits = blocked(coordinator)
        await asyncio.sleep(0)
        assert await other.unsubscribe(subscription)
        received = await asyncio.wait_for(waits, 60)
        assert received is not None and received.message.message_id == "letter-1"

    office(story)


def test_no_types_are_no_subscription(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        coordinator.subscribe_to_messages(BOB, [])
        await coordinator.subscribe(BOB, [])
        assert (await coordinator.send_message(ANN, BOB, letter())).delivered

    office(story)


def test_bad_subscriptions(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        with pytest.raises(CoordinatorInputError, match="message_types"):
            coordinator.subscribe_to_messages(BOB, ["nonsense"])  # type: ignore[list-item]
        with pytest.raises(AgentNameError, match="colon"):
            coordinator.subscribe_to_messages(AgentId(type="a:b"), [EVENT])
        await coordinator.flush()

    office(story)


def test_one_made_before_there_is_a_loop_counts_from_the_first_receive() -> None:
    from afl.coordination.memory_broker import InMemoryMessageCoordinator

    coordinator = InMemoryMessageCoordinator()
    coordinator.subscribe_to_messages(BOB, [REQUEST])

    async def story(post: Post) -> None:
        assert (await coordinator.send_message(ANN, BOB, letter(kind=EVENT))).delivered
        assert await drained(coordinator) == []
        await coordinator.close()

    tell(story, None)
