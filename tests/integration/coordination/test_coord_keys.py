"""What stands in Redis: names, kinds, nothing twice, and what happens when something else stands there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis
from support.post_office import ANN, BOB, HIGH, LOW, Post, drained, letter, must_receive, tell

from afl.coordination.consumer import Consumer
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import CoordinatorKeyError, CoordinatorSettingError
from afl.coordination.keys import Keys
from afl.coordination.models import FailureType, MessageType
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.kernel.errors import StoreCorrupt

Act = Callable[[QueueCoordinator, str], Awaitable[Any]]
ACTS: dict[str, Act] = {
    "send": lambda c, _: c.send_message(ANN, BOB, letter(9), ttl_seconds=100),
    "receive": lambda c, _: c.receive(BOB, 60),
    "ack": lambda c, token: c.ack(BOB, token),
    "nack": lambda c, token: c.nack(BOB, token),
    "bury": lambda c, token: c.nack(BOB, token, FailureType.PERMANENT),
    "release": lambda c, token: c.release(BOB, [token]),
    "extend": lambda c, token: c.extend(BOB, token, 0),
    "recover": lambda c, _: c.recover_pending(BOB),
    "requeue": lambda c, _: c.dead_letters.requeue(BOB),
    "purge": lambda c, _: c.dead_letters.purge(BOB),
    "statistics": lambda c, _: c.statistics(BOB),
    "subscribe": lambda c, _: c.subscribe(BOB, [MessageType.EVENT]),
}


async def everything(redis: Redis, prefix: str) -> dict[str, Any]:
    """All keys and what they hold."""
    found: dict[str, Any] = {}
    async for name in redis.scan_iter(f"{prefix}:*", count=1000):
        key = name.decode()
        kind = (await redis.type(key)).decode()
        if kind == "hash":
            found[key] = await redis.hgetall(key)
        elif kind == "zset":
            found[key] = await redis.zrange(key, 0, -1, withscores=True)
        elif kind == "list":
            found[key] = await redis.lrange(key, 0, -1)
        else:
            found[key] = await (redis.smembers(key) if kind == "set" else redis.get(key))
    return found


async def furnish(post: Post) -> tuple[QueueCoordinator, str]:
    """A queue with a message in every state; the token of one that is held, while another's reservation is over."""
    coordinator = post.coordinator(dedup_window=1000.0)
    for number in range(5):
        await coordinator.send_message(ANN, BOB, letter(number), ttl_seconds=1000)
    await coordinator.nack(BOB, (await must_receive(coordinator)).token, FailureType.PERMANENT)
    await must_receive(coordinator, timeout=10)
    held = await must_receive(coordinator, timeout=500)
    for number, priority in ((5, HIGH), (6, LOW)):
        await coordinator.send_message(ANN, BOB, letter(number, priority=priority))
    await coordinator.subscribe(BOB, [MessageType.EVENT])
    await post.pass_time(100)
    return coordinator, held.token


KINDS = Keys.under("p").queue(BOB).kinds


@pytest.mark.parametrize("key", list(KINDS))
def test_a_key_of_another_kind_is_named_and_nothing_is_written(redis_url: str, key: str) -> None:
    async def story(post: Post) -> None:
        assert post.redis is not None
        coordinator, token = await furnish(post)
        wrong = post.prefix + key.removeprefix("p")
        assert await post.redis.exists(wrong), "the key is not in use: nothing is shown"
        await post.redis.delete(wrong)
        await post.redis.set(wrong, "something else")
        refused = 0
        for name, act in ACTS.items():
            before = await everything(post.redis, post.prefix)
            try:
                await act(coordinator, token)
            except CoordinatorKeyError as error:
                refused += 1
                assert f"key {wrong!r} holds a string, expected a {KINDS[key]}" in str(error), name
                assert isinstance(error, StoreCorrupt)
                assert await everything(post.redis, post.prefix) == before, name
        assert refused or key.endswith(":queues"), "nobody noticed"
        assert await post.redis.get(wrong) == b"something else"

    tell(story, redis_url)


def test_a_consumer_that_an_error_ends_says_so(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever started it is told when it is stopped, which may be never."""

    async def story(post: Post) -> None:
        coordinator, _ = await furnish(post)
        assert post.redis is not None
        wrong = next(iter(Keys.under(post.prefix).queue(BOB).kinds))
        await post.redis.delete(wrong)
        await post.redis.set(wrong, "something else")
        with pytest.raises(CoordinatorKeyError):
            await Consumer(coordinator, BOB, print).run()
        assert f"bob:one receives no more messages: key {wrong!r} holds a string" in caplog.text

    tell(story, redis_url)


def test_the_names_of_the_keys(redis_url: str) -> None:
    async def story(post: Post) -> None:
        assert post.redis is not None
        await furnish(post)
        found = {key.removeprefix(post.prefix) for key in await everything(post.redis, post.prefix)}
        assert found >= {
            ":queue:bob:one",
            ":sched:bob:one:prio:5",
            ":reserved:bob:one",
            ":reserved_deadlines:bob:one",
            ":dlq:bob:one",
            ":subs:bob:one",
        }
        assert await post.redis.smembers(f"{post.prefix}:subs:bob:one") == {b"event"}
        scores = await post.redis.zrange(f"{post.prefix}:sched:bob:one:prio:5", 0, -1, withscores=True)
        seconds, micros = await post.redis.time()
        assert [member.decode() for member, _ in scores] == [
            "0000000000000004:letter-3",
            "0000000000000005:letter-4",
        ]
        assert all(0 < seconds * 1_000_000 + micros - score < 200_000_000 for _, score in scores)

    tell(story, redis_url)


def test_a_payload_is_stored_once(redis_url: str) -> None:
    async def story(post: Post) -> None:
        assert post.redis is not None
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter(payload={"x": "z" * 100_000}))
        await must_receive(coordinator)
        usage = [await post.redis.memory_usage(key) for key in await everything(post.redis, post.prefix)]
        assert sum((used or 0) > 50_000 for used in usage) == 1

    tell(story, redis_url)


def test_each_operation_is_one_round_trip(redis_url: str) -> None:
    async def story(post: Post) -> None:
        redis = post.redis
        assert redis is not None
        coordinator = post.coordinator()
        calls = 0
        connection_class = redis.connection_pool.connection_class
        written = connection_class.send_packed_command

        async def counting(self: Any, *arguments: Any, **more: Any) -> None:
            nonlocal calls
            calls += 1
            await written(self, *arguments, **more)

        async def cost(work: Awaitable[Any]) -> int:
            nonlocal calls
            calls = 0
            await work
            return calls

        for _ in range(2):  # the first time scripts are loaded
            await coordinator.broadcast_message(ANN, letter(), [BOB] * 6)
            received = await coordinator.receive_batch(BOB, 6, 60)
            await coordinator.extend(BOB, received[0].token, 60)
            await coordinator.ack_batch(BOB, [each.token for each in received[1:]])
            await coordinator.nack(BOB, received[0].token, FailureType.PERMANENT)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection_class, "send_packed_command", counting)
            costs = [await cost(coordinator.send_message(ANN, BOB, letter(n))) for n in range(5)]
            received = []
            for _ in range(3):
                calls = 0
                received.append(await must_receive(coordinator))
                costs.append(calls)
            costs.append(await cost(coordinator.ack(BOB, received[0].token)))
            costs.append(await cost(coordinator.extend(BOB, received[1].token, 60)))
            costs.append(await cost(coordinator.nack(BOB, received[1].token)))
            costs.append(await cost(coordinator.nack(BOB, received[2].token, FailureType.PERMANENT)))
            costs.append(await cost(coordinator.receive_batch(BOB, 20, 60)))
            costs.append(await cost(coordinator.receive(BOB)))
            assert costs == [1] * len(costs)
            assert await cost(coordinator.broadcast_message(ANN, letter(), [BOB] * 100)) == 1

    tell(story, redis_url)


def test_the_trail_ends_by_itself(redis_url: str) -> None:
    async def story(post: Post) -> None:
        assert post.redis is not None
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        await drained(coordinator)
        left = {
            key.decode().removeprefix(post.prefix): await post.redis.ttl(key)
            async for key in post.redis.scan_iter(f"{post.prefix}:*", count=1000)
        }
        assert list(left) == [":queue:bob:one"]
        assert 0 < left[":queue:bob:one"] <= 8 * 86400

    tell(story, redis_url)


@pytest.mark.parametrize("value", ["nonsense", "0 5 17 0 0\n{broken", "0 5 17 0 0\n[]", "\xff\xfe"])
def test_what_cannot_be_read_goes_to_the_dead_letters(redis_url: str, value: str) -> None:
    async def story(post: Post) -> None:
        assert post.redis is not None
        coordinator = post.coordinator(retry_attempts=0)
        await coordinator.send_message(ANN, BOB, letter(1))
        await coordinator.send_message(ANN, BOB, letter(2))
        await post.redis.hset(
            f"{post.prefix}:messages:bob:one", "0000000000000001:letter-1", value.encode("latin-1")
        )
        assert await coordinator.receive(BOB, 60) is None, "it was taken, and was none"
        assert await drained(coordinator) == ["letter-2"]
        (dead,) = await coordinator.dead_letters.list(BOB)
        assert dead.queue_message is None and dead.raw is not None
        assert dead.reason.startswith("unreadable")
        assert await coordinator.dead_letters.requeue(BOB) == 0
        assert await coordinator.dead_letters.purge(BOB) == 1

    tell(story, redis_url)


def test_a_line_without_a_message_is_passed_over(redis_url: str) -> None:
    async def story(post: Post) -> None:
        assert post.redis is not None
        coordinator = post.coordinator()
        await post.redis.zadd(f"{post.prefix}:sched:bob:one:prio:9", {"0000000000000000:ghost": 1})
        await coordinator.send_message(ANN, BOB, letter())
        assert await drained(coordinator) == ["letter-1"]
        assert not await post.redis.exists(f"{post.prefix}:sched:bob:one:prio:9")

    tell(story, redis_url)


def test_scripts_that_the_server_forgot_are_loaded_again(redis_url: str) -> None:
    async def story(post: Post) -> None:
        assert post.redis is not None
        coordinator = post.coordinator()
        await post.redis.script_flush()
        await coordinator.broadcast_message(ANN, letter(), [BOB] * 3)
        await post.redis.script_flush()
        received = await coordinator.receive_batch(BOB, 3, 60)
        await post.redis.script_flush()
        assert all(await coordinator.ack_batch(BOB, [each.token for each in received]))

    tell(story, redis_url)


def test_prefixes_are_worlds_of_their_own(redis_url: str) -> None:
    async def story(post: Post) -> None:
        assert post.redis is not None
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        for prefix in (f"{post.prefix}x", post.prefix[:-1], f"{post.prefix}:*", "*"):
            other = RedisMessageCoordinator(post.redis, prefix)
            assert await other.receive(BOB) is None
            assert await other.queues() == []
            await other.close()
        same = RedisMessageCoordinator(post.redis, f"{post.prefix}:")
        assert await drained(same) == ["letter-1"]
        with pytest.raises(CoordinatorSettingError, match="key_prefix"):
            RedisMessageCoordinator(post.redis, ":")

    tell(story, redis_url)


def test_a_client_that_decodes_works_as_well(redis_url: str) -> None:
    async def story() -> None:
        async with Redis.from_url(redis_url, decode_responses=True, socket_timeout=None) as redis:
            post = Post(redis_url)
            async with RedisMessageCoordinator(redis, post.prefix, retry_attempts=0) as coordinator:
                waiting = asyncio.create_task(coordinator.receive(BOB, 60, wait=60))
                await coordinator.send_message(ANN, BOB, letter(payload={"x": "ü"}))
                received = await waiting
                assert received is not None and received.message.payload == {"x": "ü"}
                assert await coordinator.nack(BOB, received.token, error="ö")
                (dead,) = await coordinator.dead_letters.list(BOB)
                assert dead.reason == "transient failure: ö"
            await post.close()

    asyncio.run(story())
