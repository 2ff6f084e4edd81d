"""What many do at the same time. Each of these went wrong where an operation was more than one step."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import permutations

import pytest
from support.post_office import ANN, BOB, Office, Post, drained, letter, must_receive

from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.models import FailureType


def test_sixteen_consumers_and_five_hundred_messages_are_five_hundred_deliveries(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinators = [post.coordinator() for _ in range(16)]
        await coordinators[0].broadcast_message(ANN, letter(), [BOB] * 500)
        tokens: list[str] = []

        async def consume(coordinator: QueueCoordinator) -> int:
            done = 0
            while (received := await coordinator.receive(BOB, 60)) is not None:
                tokens.append(received.token)
                done += await coordinator.ack(BOB, received.token)
            return done

        done = await asyncio.gather(*map(consume, coordinators))
        assert (len(tokens), len(set(tokens)), sum(done)) == (500, 500, 500)

    office(story)


def test_batches_overlap_nowhere(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinators = [post.coordinator() for _ in range(8)]
        for number in range(300):
            await coordinators[0].send_message(ANN, BOB, letter(number))
        batches = await asyncio.gather(*[each.receive_batch(BOB, 60, 60) for each in coordinators])
        seen = Counter(received.message.message_id for batch in batches for received in batch)
        assert len(seen) == 300 and set(seen.values()) == {1}

    office(story)


def test_a_hundred_sends_into_a_queue_of_ten_are_ten(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinators = [post.coordinator(queue_size=10) for _ in range(10)]
        sends = [coordinators[n % 10].send_message(ANN, BOB, letter(n)) for n in range(100)]
        results = await asyncio.gather(*sends)
        assert Counter((each.delivered, each.error) for each in results) == {
            (True, None): 10,
            (False, "queue full"): 90,
        }
        assert len(await drained(coordinators[0])) == 10

    office(story)


def test_a_hundred_duplicates_are_one(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinators = [post.coordinator(dedup_window=60.0) for _ in range(10)]
        results = await asyncio.gather(
            *[coordinators[n % 10].send_message(ANN, BOB, letter()) for n in range(100)]
        )
        assert all(each.delivered for each in results)
        assert await drained(coordinators[0]) == ["letter-1"]

    office(story)


def test_of_ack_and_nack_one_wins(office: Office) -> None:
    async def story(post: Post) -> None:
        one, two = post.coordinator(), post.coordinator(backoff_base=0.0)
        for number in range(50):
            await one.send_message(ANN, BOB, letter(number))
            token = (await must_receive(one)).token
            acked, nacked = await asyncio.gather(one.ack(BOB, token), two.nack(BOB, token))
            assert acked + nacked == 1
            assert (await one.statistics(BOB)).total == nacked
            await drained(one)

    office(story)


def test_of_many_acks_one_wins(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinators = [post.coordinator() for _ in range(8)]
        for number in range(20):
            await coordinators[0].send_message(ANN, BOB, letter(number))
            token = (await must_receive(coordinators[0])).token
            assert sum(await asyncio.gather(*[each.ack(BOB, token) for each in coordinators])) == 1

    office(story)


@pytest.mark.parametrize("order", list(permutations(("ack", "end", "recover"))), ids="-".join)
def test_of_ack_and_recovery_one_wins(office: Office, order: Sequence[str]) -> None:
    """The reservation ends at about the time of the ack, and somebody recovers: each may come first."""

    async def story(post: Post) -> None:
        one, two, three = post.coordinator(), post.coordinator(), post.coordinator()
        for number in range(25):
            await one.send_message(ANN, BOB, letter(number))
            token = (await must_receive(one)).token
            acts = {"ack": one.ack(BOB, token), "end": two.extend(BOB, token, 0)}
            begun = [acts[name] if name in acts else three.recover_pending() for name in order]
            results = dict(zip(order, await asyncio.gather(*begun), strict=True))
            late = await three.recover_pending()  # the first one may have come before the end
            assert results["ack"] + results["recover"] + late == 1
            assert len(await drained(one)) == results["recover"] + late

    office(story)


def test_of_nack_and_recovery_one_wins_and_one_copy_is_left(office: Office) -> None:
    async def story(post: Post) -> None:
        one, two = post.coordinator(backoff_base=0.0), post.coordinator()
        for number in range(50):
            await one.send_message(ANN, BOB, letter(number))
            token = (await must_receive(one)).token
            await asyncio.gather(one.nack(BOB, token), two.extend(BOB, token, 0), two.recover_pending(BOB))
            again = await must_receive(one)
            assert again.queue_message.delivery_attempts == 1
            assert await one.ack(BOB, again.token)
            assert (await one.statistics(BOB)).total == 0

    office(story)


def test_recoverers_together_count_right(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinators = [post.coordinator() for _ in range(4)]
        for number in range(40):
            await coordinators[0].send_message(ANN, BOB, letter(number))
        assert len(await coordinators[0].receive_batch(BOB, 40, 0)) == 40
        counts = await asyncio.gather(*[each.recover_pending() for each in coordinators])
        assert sum(counts) == 40
        assert len(await drained(coordinators[0])) == 40

    office(story)


def test_requeues_together_double_nothing(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinators = [post.coordinator() for _ in range(4)]
        for number in range(20):
            await coordinators[0].send_message(ANN, BOB, letter(number))
            token = (await must_receive(coordinators[0])).token
            await coordinators[0].nack(BOB, token, FailureType.PERMANENT)
        counts = await asyncio.gather(*[each.dead_letters.requeue(BOB) for each in coordinators])
        assert sum(counts) == 20
        assert sorted(await drained(coordinators[0])) == sorted(f"letter-{number}" for number in range(20))

    office(story)
