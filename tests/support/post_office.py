"""Coordinators for tests: in memory and on a server, with time that passes when a test says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.keys import Keys
from afl.coordination.memory_broker import InMemoryMessageCoordinator, MemoryWorld
from afl.coordination.models import AgentId, AgentMessage, MessagePriority, MessageType, ReceivedMessage
from afl.coordination.redis_broker import RedisMessageCoordinator

ANN, BOB, CLEO = AgentId(type="ann"), AgentId(type="bob", instance="one"), AgentId(type="cleo")
LOW, NORMAL, HIGH = MessagePriority.LOW, MessagePriority.NORMAL, MessagePriority.HIGH

# Time passes on a server when all that is stored moves into the past.
_SHIFT = """
local by = tonumber(ARGV[1])
local function past(number) return string.format('%.0f', tonumber(number) - by) end
for _, index in ipairs({2, 3, 4, 6, 11, 12}) do
  for _, member in ipairs(redis.call('ZRANGE', KEYS[index], 0, -1)) do
    redis.call('ZINCRBY', KEYS[index], -by, member)
  end
end
local messages = redis.call('HGETALL', KEYS[1])
for index = 1, #messages, 2 do
  local field, value = messages[index], messages[index + 1]
  if field == '' then
    value = string.gsub(value, '^(%d+) (%d+)$', function(seq, clock) return seq .. ' ' .. past(clock) end)
  else
    value = string.gsub(value, '^(%d+ %d) (%d+) (%d+) ', function(head, enqueued, expires)
      return head .. ' ' .. past(enqueued) .. ' ' .. (expires == '0' and '0' or past(expires)) .. ' '
    end)
  end
  redis.call('HSET', KEYS[1], field, value)
end
local held = redis.call('HGETALL', KEYS[5])
for index = 1, #held, 2 do
  local value = string.gsub(held[index + 1], '^(%d):([^:]+):(%d+):', function(priority, score, expires)
    return priority .. ':' .. past(score) .. ':' .. (expires == '0' and '0' or past(expires)) .. ':'
  end)
  redis.call('HSET', KEYS[5], held[index], value)
end
return 1
"""


def letter(
    number: int | str = 1,
    *,
    priority: MessagePriority = NORMAL,
    kind: MessageType = MessageType.EVENT,
    payload: dict[str, Any] | None = None,
) -> AgentMessage:
    """A message from Ann to Bob."""
    return AgentMessage(
        message_id=f"letter-{number}",
        sender=ANN,
        recipient=BOB,
        message_type=kind,
        payload={"n": number} if payload is None else payload,
        priority=priority,
    )


class Post:
    """A place with queues; all its coordinators share them."""

    def __init__(self, url: str | None) -> None:
        self.prefix = f"test-{uuid4().hex}"
        self.redis = None if url is None else Redis.from_url(url)
        self._ahead = 0
        self._world = MemoryWorld(lambda: time.time_ns() // 1_000 + self._ahead)
        self._made: list[QueueCoordinator] = []

    def coordinator(self, **options: Any) -> QueueCoordinator:
        made: QueueCoordinator
        if self.redis is None:
            made = InMemoryMessageCoordinator(world=self._world, **options)
        else:
            made = RedisMessageCoordinator(self.redis, self.prefix, **options)
        self._made.append(made)
        return made

    async def pass_time(self, seconds: float, *agents: AgentId) -> None:
        """So many seconds go by for the queues of these agents (Bob's, when none is named)."""
        by = int(seconds * 1_000_000)
        self._ahead += by
        if self.redis is not None:
            for agent in agents or (BOB,):
                keys = Keys.under(self.prefix).queue(agent).all
                await self.redis.eval(_SHIFT, len(keys), *keys, str(by))

    async def close(self) -> None:
        for each in self._made:
            await each.close()
        if self.redis is not None:
            found = [key async for key in self.redis.scan_iter(f"{self.prefix}:*", count=1000)]
            if found:
                await self.redis.delete(*found)
            await self.redis.aclose()


Story = Callable[[Post], Awaitable[None]]
Office = Callable[[Story], None]


def tell(story: Story, url: str | None) -> None:
    """Run a story at a place of its own."""

    async def told() -> None:
        post = Post(url)
        try:
            await story(post)
        finally:
            await post.close()

    asyncio.run(told())


async def must_receive(
    coordinator: QueueCoordinator, agent: AgentId = BOB, timeout: float = 60
) -> ReceivedMessage:
    """A message that has to be there."""
    received = await coordinator.receive(agent, timeout)
    assert received is not None, "there is no message"
    return received


async def drained(coordinator: QueueCoordinator, agent: AgentId = BOB) -> list[str]:
    """Everything that can be received, acknowledged: the ids in their order."""
    ids = []
    while (received := await coordinator.receive(agent, 60)) is not None:
        assert await coordinator.ack(agent, received.token)
        ids.append(received.message.message_id)
    return ids
