"""The pages of messages: queues, dead letters, the registry and circuit breakers, on a real Redis server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio import Redis
from support.dashboard_pages import MARKUP, Visitors, own_redis, visitors

from afl.coordination import (
    AgentId,
    CircuitBreaker,
    CircuitBreakerConfig,
    RedisAgentRegistry,
    RedisMessageCoordinator,
)
from afl.coordination.models import AgentMessage, FailureType, MessagePriority, MessageType
from afl.operations.message import coordination
from afl.operations.message.coordination import Where

CLERK, PACKER = AgentId(type="clerk", instance="1"), AgentId(type="packer")


class Registered:
    """The least that a registry takes."""

    agent_id = CLERK
    name = f"the clerk {MARKUP}"
    capabilities = ("sell",)

    def status_snapshot(self) -> dict[str, Any]:
        return {"status": f"busy {MARKUP}"}


def message(message_id: str, priority: MessagePriority = MessagePriority.NORMAL) -> AgentMessage:
    return AgentMessage(
        message_id=message_id,
        sender=CLERK,
        recipient=PACKER,
        message_type=MessageType.REQUEST,
        priority=priority,
        payload={"text": MARKUP},
    )


async def sow(url: str) -> None:
    """Two messages in line, two dead letters, an agent, a closed and an open circuit."""
    async with Redis.from_url(url) as redis:
        await redis.flushdb()
        async with RedisMessageCoordinator(redis) as coordinator:
            for number in range(2):
                await coordinator.send_message(CLERK, PACKER, message(f"dead-{number}"))
                received = await coordinator.receive(PACKER)
                assert received is not None
                await coordinator.nack(PACKER, received.token, FailureType.PERMANENT, f"too large {MARKUP}")
            await coordinator.send_message(CLERK, PACKER, message("order-1"))
            await coordinator.send_message(CLERK, PACKER, message("order-2", MessagePriority.HIGH))
        await RedisAgentRegistry(redis, heartbeat_ttl_s=600).aregister(Registered())
        config = CircuitBreakerConfig(failure_threshold=1, timeout_seconds=600)
        await CircuitBreaker(redis, "scale", config).call(fine)
        with pytest.raises(ConnectionError):
            await CircuitBreaker(redis, "printer", config).call(down)


async def fine() -> None:
    return


async def down() -> None:
    raise ConnectionError("it is down")


@pytest.fixture
def house(store_url: str, redis_url: str) -> Iterator[Visitors]:
    url = own_redis(redis_url)
    asyncio.run(sow(url))
    with visitors(store_url, redis=url) as found:
        yield found


def breaker(house: Visitors, name: str) -> str:
    found = {each.name: each for each in coordination.breakers(Where(house.settings.redis))}
    return found[name].state


def test_queues_registry_and_breakers(house: Visitors) -> None:
    text = house.viewer.read("/messages")
    assert "packer 2 1 high 1 normal 0 0 2" in text
    assert f"clerk:1 the clerk {MARKUP} alive busy {MARKUP} sell" in text
    assert "printer half open in" in text and "scale closed" in text
    assert "Dead letters 2" in text
    assert "packer" in house.viewer.read("/messages/fragment/lists")


def test_a_dead_letter_says_why_and_shows_its_message(house: Visitors) -> None:
    text = house.viewer.read("/messages/dead")
    assert text.count("dead-") == 2
    assert f"too large {MARKUP}" in text
    assert "No dead letters" in house.viewer.read("/messages/dead?agent=clerk:1")
    assert "an agent is written type or type:instance" in house.viewer.read("/messages/dead?agent=a:b:c")
    page = house.viewer.read("/messages/dead/packer/dead-0")
    assert f"too large {MARKUP}" in page and "From clerk:1" in page and "request" in page
    assert "has no dead letter 'nothing'" in house.viewer.read("/messages/dead/packer/nothing", 422)


def test_requeue_one_and_all(house: Visitors) -> None:
    told = house.operator.act("/messages/dead/requeue", agent="packer", letter="dead-0")
    assert told.text == "1 message of packer back in line, with no attempt counted."
    assert house.viewer.read("/messages/dead").count("dead-") == 1
    assert house.operator.act("/messages/dead/requeue", agent="packer").text.startswith("1 message ")
    assert "No dead letters" in house.viewer.read("/messages/dead")
    wrong = house.operator.act("/messages/dead/requeue", agent="packer", letter="nothing")
    assert wrong.kind == "bad" and "no dead letter 'nothing'" in wrong.text


def test_only_an_admin_purges(house: Visitors) -> None:
    assert "Purge" not in house.operator.read("/messages/dead?agent=packer")
    assert house.operator.send("/messages/dead/purge", agent="packer").status_code == 403
    assert house.viewer.read("/messages/dead").count("dead-") == 2
    assert house.admin.act("/messages/dead/purge", agent="packer").text == "2 messages of packer deleted."
    assert "No dead letters" in house.viewer.read("/messages/dead")


def test_breakers_are_opened_closed_and_reset(house: Visitors) -> None:
    assert "opened" in house.admin.act("/messages/breakers/open", name="scale").text
    assert breaker(house, "scale") == "open"
    assert "opened by hand" in house.admin.read("/messages")
    assert (
        house.admin.act("/messages/breakers/close", name="scale").text == "Circuit breaker scale is closed."
    )
    assert house.admin.act("/messages/breakers/reset", name="printer").kind == "good"
    assert (breaker(house, "scale"), breaker(house, "printer")) == ("closed", "closed")
    unknown = house.admin.act("/messages/breakers/open", name="nothing")
    assert unknown.kind == "bad" and "no circuit breaker 'nothing'" in unknown.text
    assert house.admin.act("/messages/breakers/burn", name="scale").kind == "bad"


def test_a_viewer_changes_nothing(house: Visitors) -> None:
    text = house.viewer.read("/messages")
    assert "Reset" not in text and "Requeue" not in house.viewer.read("/messages/dead")
    assert house.viewer.send("/messages/dead/requeue", agent="packer").status_code == 403
    assert house.viewer.send("/messages/breakers/open", name="scale").status_code == 403
    assert breaker(house, "scale") == "closed"


def test_without_redis_the_page_says_how_to_start_it(store_url: str) -> None:
    with visitors(store_url, redis="redis://127.0.0.1:1/0") as house:
        text = house.viewer.read("/messages")
        assert "Messages cannot be reached" in text and "afl up --redis" in text
        assert "Messages cannot be reached" in house.viewer.read("/messages/dead")
        assert house.admin.send("/messages/dead/purge", agent="packer").status_code == 200
