"""Messages that are sent, received and acknowledged."""

from __future__ import annotations

from datetime import UTC, datetime

from support.post_office import ANN, BOB, CLEO, HIGH, LOW, NORMAL, Office, Post, drained, letter, must_receive

from afl.coordination.models import AgentId, AgentMessage, FailureType, MessageType, RoutingKey


def test_a_message_arrives_as_it_was_sent(office: Office) -> None:
    payload = {
        "text": "grüße ☃",
        "deep": {"list": [1, 2.5, None, True, {"x": []}]},
        "big": 2**80,
        "empty": {},
    }
    sent = letter(priority=HIGH, kind=MessageType.REQUEST, payload=payload)
    sent.routing = RoutingKey(topic="t", tags=["a", 'b"c'])
    sent.correlation_id = "c-1"

    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        result = await coordinator.send_message(ANN, BOB, sent)
        assert (result.message_id, result.delivered, result.error) == ("letter-1", True, None)
        received = await must_receive(coordinator)
        got = received.queue_message
        assert got.message.model_dump(exclude={"timestamp"}) == sent.model_dump(exclude={"timestamp"})
        assert sent.timestamp is None, "the caller's message was changed"
        assert got.message.timestamp is not None and got.message.timestamp.endswith("+00:00")
        assert (got.priority, got.delivery_attempts, got.last_error) == (HIGH, 0, None)
        assert received.token.startswith("res_")

    office(story)


def test_times_are_told_in_utc(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        received = await must_receive(coordinator, timeout=600)
        enqueued = datetime.fromisoformat(received.queue_message.enqueued_at or "")
        deadline = datetime.fromisoformat(received.visibility_deadline or "")
        assert enqueued.tzinfo == deadline.tzinfo == UTC
        assert 600 <= (deadline - enqueued).total_seconds() < 700

    office(story)


def test_the_arguments_say_who_sends_to_whom(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(CLEO, ANN, letter())
        message = (await must_receive(coordinator, ANN)).message
        assert (message.sender, message.recipient) == (CLEO, ANN)
        assert await coordinator.receive(BOB) is None

    office(story)


def test_within_a_priority_the_order_of_sending_is_kept(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number in range(200):
            await coordinator.send_message(ANN, BOB, letter(number))
        assert await drained(coordinator) == [f"letter-{number}" for number in range(200)]

    office(story)


def test_higher_priorities_come_first(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number, priority in enumerate([LOW, NORMAL, HIGH, LOW, NORMAL, HIGH]):
            await coordinator.send_message(ANN, BOB, letter(number, priority=priority))
        assert await drained(coordinator) == [f"letter-{number}" for number in (2, 5, 1, 4, 0, 3)]

    office(story)


def test_each_queue_is_its_own(office: Office) -> None:
    one, two, shared = AgentId(type="w", instance="1"), AgentId(type="w", instance="2"), AgentId(type="w")

    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number, agent in enumerate((one, two, shared)):
            await coordinator.send_message(ANN, agent, letter(number))
        assert [await drained(coordinator, agent) for agent in (shared, two, one)] == [
            ["letter-2"],
            ["letter-1"],
            ["letter-0"],
        ]

    office(story)


def test_an_agent_without_instance_is_the_default_one(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, AgentId(type="w", instance="default"), letter())
        assert await coordinator.queues() == [AgentId(type="w")]
        assert await drained(coordinator, AgentId(type="w")) == ["letter-1"]

    office(story)


def test_a_broadcast_gives_each_recipient_a_copy_of_its_own(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(queue_size=1)
        await coordinator.send_message(ANN, CLEO, letter(0))
        recipients = [BOB, CLEO, ANN]
        results = await coordinator.broadcast_message(ANN, letter(), recipients)
        assert [(each.message_id, each.delivered, each.error) for each in results] == [
            ("letter-1", True, None),
            ("letter-1", False, "queue full"),
            ("letter-1", True, None),
        ]
        for agent in (BOB, ANN):
            assert (await must_receive(coordinator, agent)).message.recipient == agent
        assert await coordinator.broadcast_message(ANN, letter(), []) == []

    office(story)


def test_a_full_queue_refuses_and_room_comes_back(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(queue_size=3, backoff_base=1000.0, backoff_max=1000.0)
        await coordinator.send_message(ANN, BOB, letter(1), delay_seconds=500)
        for number in (2, 3):
            assert (await coordinator.send_message(ANN, BOB, letter(number))).delivered
        held = await must_receive(coordinator)

        async def refused() -> bool:
            result = await coordinator.send_message(ANN, BOB, letter("more"))
            assert result.error == (None if result.delivered else "queue full")
            return not result.delivered

        assert await refused(), "delayed, ready and held messages count"
        assert await coordinator.ack(BOB, held.token)
        assert not await refused()
        assert await refused()
        again = await must_receive(coordinator)
        assert await coordinator.nack(BOB, again.token)
        assert await refused(), "one that waits for its retry counts"
        dying = await must_receive(coordinator)
        assert await coordinator.nack(BOB, dying.token, FailureType.PERMANENT)
        assert not await refused(), "a dead letter does not count"

    office(story)


def test_nothing_there(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        assert await coordinator.receive(BOB) is None
        assert await coordinator.receive_batch(BOB, 10) == []
        assert await coordinator.recover_pending() == 0
        assert await coordinator.queues() == []

    office(story)


def test_what_is_reserved_is_hidden_and_acknowledged_once(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        received = await must_receive(coordinator)
        assert await coordinator.receive(BOB) is None
        assert not await coordinator.ack(CLEO, received.token), "a token of another queue"
        assert await coordinator.ack(BOB, received.token)
        assert not await coordinator.ack(BOB, received.token)
        assert not await coordinator.nack(BOB, received.token)
        assert await coordinator.queues() == []

    office(story)


def test_batches(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number in range(25):
            await coordinator.send_message(ANN, BOB, letter(number))
        first = await coordinator.receive_batch(BOB, 20, 60)
        second = await coordinator.receive_batch(BOB, 20, 60)
        ids = [received.message.message_id for received in first + second]
        assert ids == [f"letter-{number}" for number in range(25)]
        assert len({received.token for received in first + second}) == 25
        answers = await coordinator.ack_batch(
            BOB, [first[0].token, "nonsense", "res_" + "0" * 16, first[1].token]
        )
        assert answers == [True, False, False, True]
        assert await coordinator.ack_batch(BOB, []) == []
        assert (await coordinator.statistics(BOB)).in_flight == 23

    office(story)


def test_a_message_given_back_stands_where_it_stood(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for number in range(3):
            await coordinator.send_message(ANN, BOB, letter(number))
        received = await coordinator.receive_batch(BOB, 2, 60)
        assert await coordinator.release(BOB, [each.token for each in received]) == [True, True]
        assert await coordinator.release(BOB, [received[0].token]) == [False]
        again = await must_receive(coordinator)
        assert (again.message.message_id, again.queue_message.delivery_attempts) == ("letter-0", 0)
        await coordinator.ack(BOB, again.token)
        assert await drained(coordinator) == ["letter-1", "letter-2"]

    office(story)


def test_the_same_id_twice_is_two_messages_unless_a_window_is_set(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for _ in range(2):
            await coordinator.send_message(ANN, BOB, letter())
        assert await drained(coordinator) == ["letter-1", "letter-1"]

    office(story)


def test_ids_may_hold_anything(office: Office) -> None:
    ids = ['quote"\\id', "new\nline-id", "colon:id:9", "*?[glob]", "ünïcödé", "nul\x00byte", "  spaces  "]

    async def story(post: Post) -> None:
        coordinator = post.coordinator(retry_attempts=0)
        for known in ids:
            message = AgentMessage(
                message_id=known, sender=ANN, recipient=BOB, message_type=MessageType.EVENT
            )
            assert (await coordinator.send_message(ANN, BOB, message)).delivered
        for known in ids:
            received = await must_receive(coordinator)
            assert received.message.message_id == known
            await coordinator.nack(BOB, received.token)
        assert [each.message_id for each in await coordinator.dead_letters.list(BOB)] == ids
        assert await coordinator.dead_letters.requeue(BOB) == len(ids)
        assert await drained(coordinator) == ids

    office(story)


def test_statistics(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(retry_attempts=0)
        for number, priority in enumerate([LOW, LOW, NORMAL, NORMAL, HIGH]):
            await coordinator.send_message(ANN, BOB, letter(number, priority=priority))
        await coordinator.send_message(ANN, BOB, letter(9), delay_seconds=500)
        await post.pass_time(50)
        dying, _ = await coordinator.receive_batch(BOB, 2, 60)
        await coordinator.nack(BOB, dying.token)
        found = await coordinator.statistics(BOB)
        assert (found.ready, found.delayed, found.in_flight, found.dead, found.total) == (3, 1, 1, 1, 5)
        assert found.ready_by_priority == {HIGH: 0, NORMAL: 1, LOW: 2}
        assert found.oldest_ready_seconds is not None and 50 <= found.oldest_ready_seconds < 100
        assert found.next_due_seconds is not None and 400 < found.next_due_seconds <= 450
        empty = await coordinator.statistics(CLEO)
        assert (empty.total, empty.dead, empty.oldest_ready_seconds, empty.next_due_seconds) == (
            0,
            0,
            None,
            None,
        )

    office(story)


def test_the_audit_trail_tells_what_happened_and_is_capped(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(retry_attempts=0, audit_length=10)
        await coordinator.send_message(ANN, BOB, letter(1))
        await coordinator.send_message(ANN, BOB, letter(2))
        await coordinator.ack(BOB, (await must_receive(coordinator)).token)
        await coordinator.nack(BOB, (await must_receive(coordinator)).token)
        await coordinator.dead_letters.requeue(BOB)
        told = [(each.event, each.message_id) for each in await coordinator.audit_trail(BOB)]
        assert told == [
            ("sent", "letter-1"),
            ("sent", "letter-2"),
            ("acked", "letter-1"),
            ("dead", "letter-2"),
            ("requeued", "letter-2"),
        ]
        for number in range(200):
            await coordinator.send_message(ANN, BOB, letter(number))
        trail = await coordinator.audit_trail(BOB, limit=1000)
        assert 10 <= len(trail) <= 10 + 64
        assert trail[-1].message_id == "letter-199"

    office(story)


def test_an_idle_queue_leaves_nothing_behind(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(audit_length=0)
        for number in range(3):
            await coordinator.send_message(ANN, BOB, letter(number), ttl_seconds=100)
        assert await coordinator.queues() == [BOB]
        await drained(coordinator)
        assert await coordinator.queues() == []
        if post.redis is not None:
            assert [key async for key in post.redis.scan_iter(f"{post.prefix}:*", count=1000)] == []

    office(story)
