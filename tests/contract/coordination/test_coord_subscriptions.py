"""Subscriptions: which types are let into a queue."""

from __future__ import annotations

import pytest
from support.post_office import ANN, BOB, CLEO, Office, Post, drained, letter, tell

from afl.coordination.errors import AgentNameError, CoordinatorInputError
from afl.coordination.models import AgentId, MessageType

EVENT, REQUEST, RESPONSE = MessageType.EVENT, MessageType.REQUEST, MessageType.RESPONSE


def test_only_what_is_subscribed_gets_in(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        subscription = coordinator.subscribe_to_messages(BOB, [REQUEST])
        assert subscription.subscription_id.startswith("sub_") and len(subscription.subscription_id) == 16
        assert (subscription.agent_id, subscription.message_types) == (BOB, [REQUEST])
        await coordinator.flush()
        refused = await coordinator.send_message(ANN, BOB, letter(1, kind=EVENT))
        assert (refused.delivered, refused.error) == (False, "not subscribed")
        assert (await coordinator.send_message(ANN, BOB, letter(2, kind=REQUEST))).delivered
        results = await coordinator.broadcast_message(ANN, letter(3, kind=EVENT), [BOB, CLEO])
        assert [each.delivered for each in results] == [False, True]
        assert await drained(coordinator) == ["letter-2"]
        counted = coordinator.metrics.snapshot()  # type: ignore[attr-defined]
        assert counted["delivery"] == {"delivered_ok": 2, "delivered_error": 0}

    office(story)


def test_subscriptions_add_up_and_end(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator, other = post.coordinator(), post.coordinator()
        first = await coordinator.subscribe(BOB, [REQUEST])
        second = await other.subscribe(BOB, [REQUEST, RESPONSE])

        async def accepted() -> list[MessageType]:
            kinds = [EVENT, REQUEST, RESPONSE]
            results = [await coordinator.send_message(ANN, BOB, letter(1, kind=kind)) for kind in kinds]
            return [kind for kind, result in zip(kinds, results, strict=True) if result.delivered]

        assert await accepted() == [REQUEST, RESPONSE]
        assert await other.unsubscribe(first)
        assert await accepted() == [REQUEST, RESPONSE]
        assert not await other.unsubscribe(first)
        assert await coordinator.unsubscribe(second)
        assert await accepted() == [EVENT, REQUEST, RESPONSE]

    office(story)


def test_what_is_in_the_queue_stays(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter(kind=EVENT))
        await coordinator.subscribe(BOB, [REQUEST])
        assert await drained(coordinator) == ["letter-1"]

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


def test_one_made_before_there_is_a_loop_is_stored_later() -> None:
    from afl.coordination.memory_coordinator import InMemoryMessageCoordinator

    coordinator = InMemoryMessageCoordinator()
    coordinator.subscribe_to_messages(BOB, [REQUEST])

    async def story(post: Post) -> None:
        await coordinator.flush()
        assert not (await coordinator.send_message(ANN, BOB, letter(kind=EVENT))).delivered
        await coordinator.close()

    tell(story, None)
