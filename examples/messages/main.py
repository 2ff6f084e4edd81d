"""Agents that send each other messages, on a Redis server that starts with the example and ends with it.

From the root of the repository:

    python examples/messages/main.py

It needs `pip install "agentflow-afl[coordination,local]"`.

Look at: `editor` finds writers by what they can do and asks each for a page; a page that fails is tried again, one that
can never work becomes a dead letter with its reason. The printer is down: after two failures its circuit opens, and the
next page goes to the archive without asking it. When the writers fall silent they are listed as dead.
"""

import asyncio
import sys
from typing import Any

from afl.kernel.extras import require_extras

require_extras("coordination", "local")

from redis.asyncio import Redis

from afl.coordination import (
    AgentId,
    CircuitBreaker,
    CircuitBreakerConfig,
    Consumer,
    PermanentFailure,
    ReceivedMessage,
    RedisAgentRegistry,
    RedisMessageCoordinator,
    RequestFailed,
)
from afl.devstack import temporary_stack

EDITOR = AgentId(type="editor")
TOPICS = ("whales", "tides", "", "islands")


class Writer:
    """An agent: what the registry knows of it, and what it does with a message."""

    def __init__(self, instance: str) -> None:
        self.agent_id = AgentId(type="writer", instance=instance)
        self.name = f"writer {instance}"
        self.capabilities = ["write"]
        self.stumbled = False

    def status_snapshot(self) -> dict[str, Any]:
        return {"status": "idle"}

    async def write(self, received: ReceivedMessage) -> dict[str, Any]:
        topic = received.message.payload["topic"]
        if not topic:
            raise PermanentFailure("a page about nothing cannot be written")
        if not self.stumbled:
            self.stumbled = True
            raise RuntimeError("the pen broke")
        return {"page": f"A page about {topic}, by {self.name}"}


async def ask(coordinator: RedisMessageCoordinator, writer: AgentId, topic: str) -> str | None:
    try:
        response = await coordinator.request(EDITOR, writer, {"topic": topic}, timeout=2)
    except RequestFailed as error:
        print(error)
        return None
    return str(response.payload["page"])


def printer(page: str) -> str:
    raise ConnectionError("the printer is down")


async def archive(page: str) -> str:
    return "archived"


async def main(redis: Redis) -> None:
    coordinator = RedisMessageCoordinator(redis, "example", backoff_base=0.05)
    registry = RedisAgentRegistry(redis, "example", heartbeat_ttl_s=0.5, coordinator=coordinator)
    config = CircuitBreakerConfig(failure_threshold=2, timeout_seconds=30)
    breaker = CircuitBreaker(redis, "printer", config, "example", fallback=archive)
    writers = [Writer("a"), Writer("b")]
    consumers = [Consumer(coordinator, writer.agent_id, writer.write) for writer in writers]
    for writer, consumer in zip(writers, consumers, strict=True):
        registry.register(writer)
        consumer.start()
    found = [AgentId(**each["agent_id"]) for each in await registry.discover(capability="write")]
    print("the editor found", ", ".join(f"{each.type} {each.instance}" for each in found))
    pages = await asyncio.gather(*(ask(coordinator, found[n % 2], topic) for n, topic in enumerate(TOPICS)))
    for number, page in enumerate(pages):
        print(f"page {number}:", page or "no answer")
    for agent in found:
        for letter in await coordinator.dead_letters.list(agent):
            why = letter.queue_message.last_error if letter.queue_message else letter.reason
            print(f"dead letter of {agent.type} {agent.instance}: {why}")
    for page in filter(None, pages):
        try:
            print("printing:", await breaker.call(printer, page))
        except ConnectionError as error:
            print("printing:", error)
    print("the printer's circuit is", (await breaker.get_state()).value)
    await asyncio.gather(*(consumer.stop() for consumer in consumers))
    while any(each["alive"] for each in await registry.list_registered()):  # nobody beats for them
        await asyncio.sleep(0.05)
    print("listed as dead:", ", ".join(each["name"] for each in await registry.list_registered()))
    await coordinator.close()


async def connected(url: str) -> None:
    async with Redis.from_url(url) as redis:
        await main(redis)


if __name__ == "__main__":
    with temporary_stack() as stack:
        asyncio.run(connected(stack.up(["redis"])["redis"]))
    sys.exit(0)
