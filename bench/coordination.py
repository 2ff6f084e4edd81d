"""The figures of coordination: messages against a raw loop of one script per operation, the registry's round trips."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from redis.asyncio import Connection, ConnectionPool, Redis

from afl.coordination.circuit_breaker import CircuitBreaker
from afl.coordination.models import AgentId, AgentMessage, MessagePriority, MessageType
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.coordination.redis_registry import RedisAgentRegistry
from bench.place import Place
from bench.report import Report

ROUNDS, MESSAGES, BACKLOG, AGENTS = 7, 400, 50_000, 1_000
AT_ONCE = 50  # below the number of connections that the driver opens
ASKER, WORKER = AgentId(type="asker"), AgentId(type="worker", instance="1")
PAYLOAD = {"task": "summarize", "text": "x" * 200, "options": {"words": 50, "tone": "plain"}}
RAW_SCRIPT = "return redis.call('SET', KEYS[1], ARGV[1])"


def measure(report: Report, place: Place) -> None:
    """Every figure of coordination."""
    asyncio.run(_measure(report, place.server("redis")))


async def _measure(report: Report, url: str) -> None:
    async with Redis.from_url(url) as redis:
        await sequence(report, redis)
        await consumers(report, redis)
        await backlog(report, redis)
        await breaker(report, redis)
    await listing(report, url)


class Raw:
    """What one operation costs at least: the script that does next to nothing, by the driver, and json.dumps."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._key = f"raw{uuid4().hex}"
        self._sha = ""

    async def operations(self, count: int) -> None:
        """So many, one after another."""
        self._sha = self._sha or await self._redis.script_load(RAW_SCRIPT)
        for number in range(count):
            message = {"message_id": f"m-{number:08}", "payload": PAYLOAD, "priority": 5}
            await self._redis.evalsha(self._sha, 1, self._key, json.dumps(message))


def coordinator_on(redis: Redis, **options: Any) -> RedisMessageCoordinator:
    return RedisMessageCoordinator(redis, f"bench{uuid4().hex[:8]}", **options)


def message(number: int, priority: MessagePriority = MessagePriority.NORMAL) -> AgentMessage:
    return AgentMessage(
        message_id=f"m-{number:08}",
        sender=ASKER,
        recipient=WORKER,
        message_type=MessageType.REQUEST,
        payload=PAYLOAD,
        priority=priority,
    )


async def send(coordinator: RedisMessageCoordinator, messages: list[AgentMessage]) -> None:
    for each in messages:
        await coordinator.send_message(ASKER, WORKER, each)


async def fill(coordinator: RedisMessageCoordinator, count: int, priority: MessagePriority) -> None:
    """Many at once, so that it does not take long."""
    for start in range(0, count, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, count))
        await asyncio.gather(
            *(coordinator.send_message(ASKER, WORKER, message(number, priority)) for number in numbers)
        )


async def drain(coordinator: RedisMessageCoordinator) -> int:
    """Receive and acknowledge, one by one, until nothing is left."""
    count = 0
    while (received := await coordinator.receive(WORKER)) is not None:
        await coordinator.ack(WORKER, received.token)
        count += 1
    return count


async def drain_in_batches(coordinator: RedisMessageCoordinator, size: int) -> int:
    count = 0
    while batch := await coordinator.receive_batch(WORKER, size):
        await coordinator.ack_batch(WORKER, [each.token for each in batch])
        count += len(batch)
    return count


async def took(work: Awaitable[Any]) -> float:
    begin = time.perf_counter()
    await work
    return time.perf_counter() - begin


async def median_ratio(one: Callable[[], Awaitable[float]]) -> float:
    """Over rounds; each measures both sides, so that noise hits both. The first one warms up."""
    await one()
    return statistics.median([await one() for _ in range(ROUNDS)])


async def sequence(report: Report, redis: Redis) -> None:
    """One client, one operation after another; receive and acknowledge are two of them."""
    raw, coordinator = Raw(redis), coordinator_on(redis)
    messages = [message(number) for number in range(MESSAGES)]
    limits: list[float] = []
    costs: dict[str, list[float]] = {"send": [], "receive + ack": []}

    async def measured(name: str, work: Awaitable[Any], operations: int) -> float:
        before = await took(raw.operations(MESSAGES // 2))
        costs[name].append(await took(work) / operations)
        after = await took(raw.operations(MESSAGES // 2))
        limits.append((before + after) / MESSAGES)
        return limits[-1] / costs[name][-1]

    async def sending() -> float:
        ratio = await measured("send", send(coordinator, messages), MESSAGES)
        await drain(coordinator)
        return ratio

    async def receiving() -> float:
        await send(coordinator, messages)
        return await measured("receive + ack", drain(coordinator), 2 * MESSAGES)

    for name, one in (("send", sending), ("receive + ack", receiving)):
        value = await median_ratio(one)
        ours, theirs = (statistics.median(each) * 1e6 for each in (costs[name], limits))
        detail = f"{ours:.0f} µs/operation, raw {theirs:.0f} µs"
        report.add(f"Redis: {name} in sequence / raw EVALSHA + json.dumps", value, "at_least", 0.7, detail)


async def consumers(report: Report, redis: Redis) -> None:
    """Eight consumers at once, and batches of twenty, against one consumer that goes one by one."""
    coordinator = coordinator_on(redis)

    async def at_once(count: int) -> None:
        await asyncio.gather(*(drain(coordinator) for _ in range(count)))

    async def ratio(other: Callable[[], Awaitable[Any]]) -> float:
        await fill(coordinator, MESSAGES, MessagePriority.NORMAL)
        alone = await took(at_once(1))
        await fill(coordinator, MESSAGES, MessagePriority.NORMAL)
        return alone / await took(other())

    report.add(
        "Redis: 8 concurrent consumers / one",
        await median_ratio(lambda: ratio(lambda: at_once(8))),
        "at_least",
        1.2,
    )
    batches = await median_ratio(lambda: ratio(lambda: drain_in_batches(coordinator, 20)))
    report.add("Redis: batches of 20 / one by one", batches, "at_least", 3)


async def backlog(report: Report, redis: Redis) -> None:
    """A HIGH message is acknowledged behind many LOW ones as in an empty queue."""
    empty, full = coordinator_on(redis), coordinator_on(redis, queue_size=2 * BACKLOG)
    await fill(full, BACKLOG, MessagePriority.LOW)
    acks: dict[str, list[float]] = {"empty": [], "full": []}
    for number in range(MESSAGES):
        for name, coordinator in (("empty", empty), ("full", full)):
            await coordinator.send_message(ASKER, WORKER, message(BACKLOG + number, MessagePriority.HIGH))
            received = await coordinator.receive(WORKER)
            assert received is not None and received.queue_message.priority is MessagePriority.HIGH
            acks[name].append(await took(coordinator.ack(WORKER, received.token)))
    medians = {name: statistics.median(found) for name, found in acks.items()}
    detail = ", ".join(f"{name}: {value * 1e6:.0f} µs" for name, value in medians.items())
    report.add(
        f"Redis: ack behind {BACKLOG:,} LOW / on an empty queue",
        medians["full"] / medians["empty"],
        "at_most",
        1.3,
        detail,
    )


async def breaker(report: Report, redis: Redis) -> None:
    """No bar: what a call through a closed circuit costs, which is two round trips."""
    circuit = CircuitBreaker(redis, "bench", key_prefix=f"bench{uuid4().hex[:8]}")

    async def nothing() -> None:
        return

    async def calls() -> None:
        for _ in range(MESSAGES):
            await circuit.call(nothing)

    await calls()
    report.note("Redis: a call through a circuit breaker", f"{await took(calls()) / MESSAGES * 1e6:.0f} µs")


class _Agent:
    """The least a registry takes."""

    def __init__(self, number: int) -> None:
        self.agent_id = AgentId(type="worker", instance=f"{number:04}")
        self.name = f"worker {number}"
        self.capabilities = ("work",)

    def status_snapshot(self) -> dict[str, Any]:
        return {"status": "idle"}


class _Counted(Connection):
    sent = 0

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        _Counted.sent += 1
        await super().send_packed_command(*args, **options)


async def listing(report: Report, url: str) -> None:
    """Round trips, counted where they leave this process."""
    async with Redis.from_pool(ConnectionPool.from_url(url, connection_class=_Counted)) as redis:
        registry = RedisAgentRegistry(redis, f"bench{uuid4().hex[:8]}")
        for number in range(AGENTS):
            await registry.aregister(_Agent(number))
        await registry.list_registered()  # the server knows the scripts from then on
        begin = _Counted.sent
        spent = await took(registry.list_registered())
        report.add(
            f"Redis: round trips of list_registered, {AGENTS:,} agents",
            _Counted.sent - begin,
            "at_most",
            3,
            f"{spent * 1e3:.0f} ms",
        )
        begin = _Counted.sent
        spent = await took(registry.beat())
        report.note(
            f"Redis: one heartbeat of {AGENTS:,} agents",
            f"{_Counted.sent - begin} round trip, {spent * 1e3:.0f} ms",
        )
