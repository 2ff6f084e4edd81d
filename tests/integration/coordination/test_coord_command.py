"""`afl coord` against a real server."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from support.command_line import Afl, Outcome, afl
from support.registries import Helper

from afl.coordination.breaker_config import CircuitBreakerConfig
from afl.coordination.circuit_breaker import CircuitBreaker
from afl.coordination.errors import CircuitBreakerOpenError
from afl.coordination.models import AgentId, AgentMessage, FailureType, MessageType
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.coordination.redis_registry import RedisAgentRegistry

__all__ = ["afl"]

WRITER, READER = AgentId(type="writer", instance="1"), AgentId(type="reader")


@pytest.fixture
def prefix() -> str:
    return f"t{uuid4().hex}"


class Coord:
    """`afl coord ...` on the test's own prefix."""

    def __init__(self, afl: Afl, url: str, prefix: str) -> None:
        self._afl, self._place = afl, ("--redis", url, "--prefix", prefix)

    def __call__(self, *args: str) -> Outcome:
        return self._afl("coord", *args, *self._place)

    def json(self, *args: str) -> Any:
        done = self(*args, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)


@pytest.fixture
def coord(afl: Afl, redis_url: str, prefix: str) -> Coord:
    return Coord(afl, redis_url, prefix)


def message(number: int, recipient: AgentId) -> AgentMessage:
    return AgentMessage(
        message_id=f"m-{number:05}",
        sender=READER,
        recipient=recipient,
        message_type=MessageType.REQUEST,
        payload={"n": number},
    )


@pytest.fixture
def filled(redis_url: str, prefix: str) -> None:
    """Writer 1: one message ready, two dead. The reader: one ready."""

    async def fill() -> None:
        async with Redis.from_url(redis_url) as redis, RedisMessageCoordinator(redis, prefix) as coordinator:
            for number in range(3):
                await coordinator.send_message(READER, WRITER, message(number, WRITER))
            for _ in range(2):
                received = await coordinator.receive(WRITER)
                assert received is not None
                await coordinator.nack(WRITER, received.token, FailureType.PERMANENT, "no ink")
            await coordinator.send_message(WRITER, READER, message(9, READER))

    asyncio.run(fill())


def test_queues(coord: Coord, filled: None) -> None:
    found = {each["agent"]: each for each in coord.json("queues")}
    assert (found["writer:1"]["ready"], found["writer:1"]["dead"]) == (1, 2)
    assert found["writer:1"]["ready_by_priority"]["normal"] == 1
    assert (found["reader"]["ready"], found["reader"]["dead"]) == (1, 0)
    shown = coord("queues").out.splitlines()
    assert shown[0].split() == ["AGENT", "READY", "DELAYED", "IN", "FLIGHT", "DEAD", "OLDEST"]
    assert [line.split()[0] for line in shown[1:]] == ["reader", "writer:1"]


def test_nothing_there_is_said(coord: Coord) -> None:
    assert "No queue" in coord("queues").err
    assert "No agent" in coord("agents").err
    assert "No circuit breaker" in coord("breakers").err
    assert "No dead letters" in coord("dlq", "list").err
    assert [coord.json(name) for name in ("queues", "agents", "breakers")] == [[], [], []]


def test_agents(coord: Coord, redis_url: str, prefix: str) -> None:
    async def register() -> None:
        async with Redis.from_url(redis_url) as redis:
            await RedisAgentRegistry(redis, prefix).aregister(Helper("writer", "1", ["write"]))
            short = RedisAgentRegistry(redis, prefix, heartbeat_ttl_s=0.001)
            await short.aregister(Helper("reader"))
            while (await short.list_registered())[0]["alive"]:
                await asyncio.sleep(0.001)

    asyncio.run(register())
    found = coord.json("agents")
    assert [(each["agent_id"]["type"], each["alive"]) for each in found] == [
        ("reader", False),
        ("writer", True),
    ]
    dead, alive = coord("agents").out.splitlines()[1:]
    assert dead.split()[:4] == ["reader", "reader", "alone", "no"]
    assert alive.split()[0] == "writer:1" and "write 1.0.0" in alive


async def called(redis_url: str, prefix: str) -> None:
    async def broken() -> NoReturn:
        raise ConnectionError

    async with Redis.from_url(redis_url) as redis:
        config = CircuitBreakerConfig(failure_threshold=2, timeout_seconds=600)
        breaker = CircuitBreaker(redis, "mail", config, prefix)
        try:
            await breaker.call(broken)
        except ConnectionError:
            return


def test_breakers_are_listed_opened_closed_and_reset(coord: Coord, redis_url: str, prefix: str) -> None:
    asyncio.run(called(redis_url, prefix))
    (found,) = coord.json("breakers")
    assert (found["name"], found["state"], found["failure_count"]) == ("mail", "closed", 1)
    asyncio.run(called(redis_url, prefix))
    (found,) = coord.json("breakers")
    assert found["state"] == "open" and 0 < found["retry_after"] <= 600_000, (
        "by the configuration of its users"
    )
    assert "half open in 9 min" in coord("breakers").out
    assert coord.json("breakers", "close", "mail")[0]["state"] == "closed"
    assert coord.json("breakers", "open", "mail")[0]["forced"] is True
    assert "opened by hand" in coord("breakers").out
    with pytest.raises(CircuitBreakerOpenError):
        asyncio.run(called(redis_url, prefix))
    (found,) = coord.json("breakers", "reset", "mail")
    assert (found["state"], found["total_calls"]) == ("closed", 0)


def test_an_unknown_breaker_is_refused_and_nothing_is_made(coord: Coord, redis_url: str, prefix: str) -> None:
    asyncio.run(called(redis_url, prefix))
    done = coord("breakers", "open", "mial")
    assert done.code == 1 and "did you mean 'mail'?" in done.err
    assert len(coord.json("breakers")) == 1
    assert coord("breakers", "open").code == 2


def test_dead_letters(coord: Coord, filled: None) -> None:
    found = coord.json("dlq", "list")
    assert [each["message_id"] for each in found] == ["m-00000", "m-00001"]
    assert {each["agent"] for each in found} == {"writer:1"}
    assert "no ink" in coord("dlq", "list", "writer:1").out
    assert coord.json("dlq", "list", "reader") == []
    letter = json.loads(coord("dlq", "show", "writer:1", "m-00001").out)
    assert letter["message"]["payload"] == {"n": 1}
    assert letter == found[1], "as the list shows it"
    assert (letter["priority"], letter["raw"]) == ("normal", "")
    assert coord.json("dlq", "requeue", "writer:1", "m-00001") == {"agent": "writer:1", "letters": 1}
    assert coord.json("dlq", "purge", "writer:1", "--all") == {"agent": "writer:1", "letters": 1}
    assert coord.json("dlq", "list") == []
    assert {each["agent"]: each["ready"] for each in coord.json("queues")} == {"reader": 1, "writer:1": 2}


def test_a_dead_letter_tells_its_reason_once(coord: Coord, filled: None) -> None:
    told = coord("dlq", "show", "writer:1", "m-00001").out
    assert json.loads(told)["reason"] == "permanent failure: no ink"
    assert told.count("no ink") == 1


def test_dead_letters_that_are_not_there(coord: Coord, filled: None) -> None:
    done = coord("dlq", "requeue", "writer:1", "m-00000", "m-99999")
    assert done.code == 1 and "no dead letter 'm-99999'" in done.err
    assert len(coord.json("dlq", "list")) == 2, "a typing error changes nothing"
    assert coord("dlq", "purge", "writer:1").code == 2, "all must be said"
    assert coord("dlq", "purge", "writer:1", "m-00000", "--all").code == 2
    assert "type:instance" in coord("dlq", "list", "a:b:c").err


def test_the_server_comes_from_the_settings_and_may_be_away(
    afl: Afl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_REDIS", "redis://127.0.0.1:1/0")
    done = afl("coord", "queues")
    assert done.code == 1 and "does not answer" in done.err
    monkeypatch.setenv("AFL_REDIS", "http://127.0.0.1")
    done = afl("coord", "queues")
    assert done.code == 1 and "AFL_REDIS is" in done.err
    monkeypatch.setenv("AFL_REDIS", "redis://127.0.0.1:1/0?ssl_ca_cert=ca.pem")
    done = afl("coord", "queues")
    assert done.code == 1 and "its client knows no option 'ssl_ca_cert'" in done.err


@pytest.mark.parametrize(
    "words", [(), ("queues",), ("agents",), ("breakers",), ("dlq",), ("dlq", "list")], ids=str
)
def test_help(afl: Afl, words: tuple[str, ...]) -> None:
    done = afl("coord", *words, "--help")
    assert done.code == 0
    assert "Examples" in done.out and "afl coord" in done.out
