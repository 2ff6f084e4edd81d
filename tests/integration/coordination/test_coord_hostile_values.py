"""Anything in any key and on any channel: whoever reads it gets an answer or a clear error, and consumers go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from support.eventually import PATIENCE_SECONDS
from support.post_office import ANN, BOB, Post, letter
from support.properties import tries
from support.registries import Helper

from afl.coordination.circuit_breaker import CircuitBreaker
from afl.coordination.consumer import Consumer
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.keys import Keys
from afl.coordination.models import ReceivedMessage
from afl.coordination.redis_breaker import known_breakers
from afl.coordination.redis_registry import RedisAgentRegistry
from afl.kernel.errors import AgentFlowError

ODD: list[Any] = [
    "",
    "a\0b",
    "a\nb",
    "x" * 10_000,
    -1,
    2**31,
    2**63,
    2**64,
    10**400,
    1.5,
    None,
    True,
    [],
    {},
    ["\0"],
    {"a": "\0"},
]
NUMBERS = st.sampled_from([b"0", b"1", b"-1", b"5", b"17", b"9" * 30, b"1.5", b"", b"x"])
MESSAGE = json.loads(letter().model_dump_json())
DEEP = b"[" * 5_000 + b"]" * 5_000


def spoilt(sound: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """The JSON of something sound with odd values in some places."""
    odd = st.dictionaries(st.sampled_from(sorted(sound)), st.sampled_from(ODD), max_size=2)
    return odd.map(lambda bad: json.dumps(sound | bad).encode())


BYTES = st.one_of(st.binary(max_size=30), st.sampled_from([b"{}", b"[]", b"null", b"1", DEEP, b"\xff\xfe"]))
BODIES = st.one_of(BYTES, spoilt(MESSAGE))
HEADS = st.lists(NUMBERS, min_size=4, max_size=6).map(b" ".join)
ENTRIES = st.one_of(BODIES, st.builds(lambda head, body: head + b"\n" + body, HEADS, BODIES))
LETTERS = st.one_of(
    BYTES,
    spoilt({"dead_id": "1-1", "reason": "x", "dead_at": 1, "raw": "x"}),
    spoilt(
        {
            "dead_id": "1-1",
            "reason": "x",
            "dead_at": 1,
            "delivery_attempts": 1,
            "last_error": None,
            "priority": 5,
            "enqueued_at": 1,
            "message": MESSAGE,
        }
    ),
)
AGENT = {
    "name": "x",
    "agent_id": {"type": "helper", "instance": "one"},
    "status": {},
    "heartbeat_ttl_s": 1,
    "last_heartbeat": 1,
}
EVENT = {"event": "died", "agent": "helper:one", "at": 1.0}
MEMBERS = st.one_of(
    BYTES, st.sampled_from([b"0000000000000001:letter-9", b"bob:one", b"helper:one", b":", b"a:b:c"])
)
SCORES = st.sampled_from([0.0, 1.0, -1.0, 1e300, float("inf")])


class Fixture:
    """One event loop from the first example to the last, with everybody at work in it."""

    def __init__(self, url: str, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.handled: list[str] = []
        runner.run(self._begin(url))

    async def _begin(self, url: str) -> None:
        self.post = Post(url)
        assert self.post.redis is not None
        self.redis: Redis = self.post.redis
        self.prefix = self.post.prefix
        self.keys = Keys.under(self.prefix)
        self.coordinator: QueueCoordinator = self.post.coordinator(fallback_interval=0.01)
        self.consumer = Consumer(self.coordinator, BOB, self._handle, concurrency=4)
        self.consumer.start()
        self.registry = RedisAgentRegistry(
            self.redis, self.prefix, enable_events=True, coordinator=self.coordinator
        )
        await self.registry.aregister(Helper("helper", "one"))

    def run(self, work: Awaitable[Any]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await work

        return self._runner.run(bounded())

    def goes_on(self) -> None:
        """Once what is wrong was removed, the consumer that ran through all of it handles a message."""
        self.run(self._goes_on())

    async def _goes_on(self) -> None:
        found = [key async for key in self.redis.scan_iter(f"{self.prefix}:*", count=1000)]
        if found:
            await self.redis.delete(*found)
        await self.coordinator.send_message(ANN, BOB, letter("last"))
        while "letter-last" not in self.handled:
            await asyncio.sleep(0.005)

    async def _handle(self, received: ReceivedMessage) -> None:
        self.handled.append(received.message.message_id)

    async def close(self) -> None:
        await self.consumer.stop(grace=0)
        await self.post.close()


@pytest.fixture
def there(redis_url: str) -> Iterator[Fixture]:
    with asyncio.Runner() as runner:
        there = Fixture(redis_url, runner)
        yield there
        there.run(there.close())


async def answered(*works: Awaitable[Any]) -> None:
    """Each is answered, or refused with an error of ours."""
    for work in works:
        try:
            await work
        except AgentFlowError as error:
            assert str(error)


def test_any_message(there: Fixture) -> None:
    queue = there.keys.queue(BOB)
    messages, _, ready = queue.all[:3]

    async def put(number: int, value: bytes) -> None:
        member = f"{number:016}:letter-x"
        await there.redis.hset(messages, member, value)
        await there.redis.zadd(ready, {member: 1})
        await there.redis.publish(queue.notify, value[:20])
        await answered(there.coordinator.receive(BOB, 60), there.coordinator.statistics(BOB))

    @tries(150)
    @given(st.integers(1, 5), ENTRIES)
    def is_read_or_buried(number: int, value: bytes) -> None:
        there.run(put(number, value))

    is_read_or_buried()
    there.run(answered(there.coordinator.dead_letters.list(BOB)))
    there.goes_on()


def test_any_dead_letter_and_any_line_of_the_trail(there: Fixture) -> None:
    dead, trail = there.keys.queue(BOB).all[6:8]

    async def put(value: bytes, line: bytes) -> None:
        await there.redis.rpush(dead, value)
        await there.redis.rpush(trail, line)
        letters = there.coordinator.dead_letters
        await answered(
            letters.list(BOB, 5), letters.peek(BOB), there.coordinator.audit_trail(BOB), letters.requeue(BOB)
        )
        await there.redis.delete(dead, trail)

    @tries(100)
    @given(LETTERS, st.one_of(BYTES, st.lists(NUMBERS, max_size=4).map(b" ".join)))
    def is_told(value: bytes, line: bytes) -> None:
        there.run(put(value, line))

    is_told()
    there.goes_on()


def test_anything_in_any_key_of_a_queue(there: Fixture) -> None:
    kinds = there.keys.queue(BOB).kinds

    async def put(key: str, member: bytes, value: bytes, score: float) -> None:
        await answered(there.coordinator.send_message(ANN, BOB, letter()))
        if kinds[key] == "hash":
            await there.redis.hset(key, member, value)
        elif kinds[key] == "zset":
            await there.redis.zadd(key, {member: score})
        elif kinds[key] == "list":
            await there.redis.rpush(key, value)
        else:
            await there.redis.sadd(key, value)
        coordinator = there.coordinator
        await answered(
            coordinator.send_message(ANN, BOB, letter()),
            coordinator.receive(BOB, 60),
            coordinator.recover_pending(BOB),
            coordinator.statistics(BOB),
            coordinator.queues(),
        )
        await there.redis.delete(*kinds)

    @tries(120)
    @given(st.sampled_from(list(kinds)), MEMBERS, ENTRIES, SCORES)
    def is_told(key: str, member: bytes, value: bytes, score: float) -> None:
        there.run(put(key, member, value, score))

    is_told()
    there.goes_on()


def test_anything_in_the_registry(there: Fixture) -> None:
    keys, registry = there.keys, there.registry

    async def put(data: bytes, capabilities: bytes, member: bytes, event: bytes) -> None:
        await there.redis.set(keys.agent("helper:one"), data)
        await there.redis.set(keys.capabilities("helper:one"), capabilities)
        await there.redis.sadd(keys.agents_index, member, keys.agent("helper:one"))
        await there.redis.sadd(keys.capabilities_index, member, keys.capabilities("helper:one"))
        async with registry.watch() as events:
            await there.redis.publish(keys.events, event)
            await there.redis.publish(keys.events, json.dumps(EVENT))
            assert (await anext(events)) is not None
        await answered(
            registry.list_registered(),
            registry.discover("x"),
            registry.beat(),
            registry.aregister(Helper("helper", "one")),
        )
        await there.redis.delete(keys.agents_index, keys.capabilities_index)

    @tries(80)
    @given(st.one_of(BYTES, spoilt(AGENT)), BYTES, MEMBERS, st.one_of(BYTES, spoilt(EVENT)))
    def is_told(data: bytes, capabilities: bytes, member: bytes, event: bytes) -> None:
        there.run(put(data, capabilities, member, event))

    is_told()
    there.goes_on()


def test_anything_in_a_breaker(there: Fixture) -> None:
    keys = there.keys
    fields = [
        b"state",
        b"epoch",
        b"failure_count",
        b"changed_at",
        b"forced",
        b"config",
        b"last_failure_time",
        b"total_calls",
    ]

    async def put(field: bytes, value: bytes, member: bytes) -> None:
        await there.redis.hset(keys.breaker_state("service"), field, value)
        await there.redis.hset(keys.breaker_metrics("service"), field, value)
        await there.redis.sadd(keys.breakers_index, member)
        breaker = CircuitBreaker(there.redis, "service", key_prefix=there.prefix)
        await answered(
            breaker.call(lambda: 1),
            breaker.get_metrics(),
            known_breakers(there.redis, there.prefix),
            breaker.reset(),
        )
        await there.redis.delete(
            keys.breaker_state("service"), keys.breaker_metrics("service"), keys.breakers_index
        )

    @tries(80)
    @given(st.sampled_from(fields), st.one_of(BYTES, NUMBERS), MEMBERS)
    def is_told(field: bytes, value: bytes, member: bytes) -> None:
        there.run(put(field, value, member))

    is_told()
    there.goes_on()
