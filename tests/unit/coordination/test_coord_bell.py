"""The notifier, with a connection that answers at the worst moments. No ring may be waited for in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from afl.coordination.broker import Waiters
from afl.coordination.notifier import RedisNotifier

DEADLINE_S = 30.0


class Wire:
    """Stands in for the connection of a PubSub."""

    retry = None


class Line:
    """Stands in for a PubSub: what it is told to answer, it answers before `subscribe` returns."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._answers: asyncio.Queue[dict[str, Any] | Exception] = asyncio.Queue()
        self.is_closed = False
        self.connection: Wire | None = None

    async def connect(self) -> None:
        self.connection = Wire()

    async def subscribe(self, channel: str) -> None:
        if self._server.confirms:
            self._answers.put_nowait({"type": "subscribe", "channel": channel.encode(), "data": 1})
        await self._server.meanwhile(self)
        for _ in range(10):  # whoever reads goes first
            await asyncio.sleep(0)

    def say(self, answer: dict[str, Any] | Exception) -> None:
        self._answers.put_nowait(answer)

    async def get_message(self, timeout: float | None) -> dict[str, Any]:
        answer = await self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self) -> None:
        self.is_closed = True


async def _nothing(line: Line) -> None:
    return


class Server:
    """Stands in for a client; `meanwhile` happens while a subscription is being sent."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.confirms = True
        self.meanwhile: Callable[[Line], Awaitable[None]] = _nothing

    def pubsub(self) -> Line:
        self.lines.append(Line(self))
        return self.lines[-1]


def story(told: Callable[[Server, RedisNotifier, Waiters], Awaitable[None]], patience: float = 60.0) -> None:
    async def run() -> None:
        server, waiters = Server(), Waiters()
        notifier = RedisNotifier(server, waiters, patience)  # type: ignore[arg-type]
        async with asyncio.timeout(DEADLINE_S):
            await told(server, notifier, waiters)
            await notifier.close()
        assert all(line.is_closed for line in server.lines)

    asyncio.run(run())


def test_a_confirmation_that_is_read_before_subscribe_returns() -> None:
    async def told(server: Server, notifier: RedisNotifier, waiters: Waiters) -> None:
        for queue in ("a", "b", "c"):
            await notifier.receive(f"ring:{queue}", queue, 60.0)
        with waiters.waiting("c") as waiter:
            server.lines[0].say({"type": "message", "channel": b"ring:c", "data": b"1"})
            await waiter.wait(60.0)
        assert len(server.lines) == 1

    story(told)


def test_a_connection_that_is_lost_while_another_subscribes() -> None:
    async def told(server: Server, notifier: RedisNotifier, waiters: Waiters) -> None:
        async def lose(line: Line) -> None:
            server.meanwhile, server.confirms = _nothing, True
            line.say(RedisConnectionError("gone"))
            while not line.is_closed:
                await asyncio.sleep(0)

        await notifier.receive("ring:a", "a", 60.0)
        server.meanwhile, server.confirms = lose, False
        with pytest.raises(RedisConnectionError, match="gone"):
            await notifier.receive("ring:b", "b", 60.0)
        await notifier.receive("ring:b", "b", 60.0)
        await notifier.receive("ring:a", "a", 60.0)
        with waiters.waiting("a") as waiter:
            server.lines[-1].say({"type": "message", "channel": b"ring:a", "data": b"1"})
            await waiter.wait(60.0)
        assert len(server.lines) == 2

    story(told)


def test_a_subscription_that_is_never_confirmed_holds_up_nobody() -> None:
    async def told(server: Server, notifier: RedisNotifier, waiters: Waiters) -> None:
        server.confirms = False
        await notifier.receive("ring:a", "a", 60.0)
        assert server.lines[0].is_closed, "a silent connection is given up"
        server.confirms = True
        await notifier.receive("ring:a", "a", 60.0)
        assert not server.lines[1].is_closed

    story(told, patience=0.01)


def test_who_is_impatient_does_not_cut_off_the_others() -> None:
    async def told(server: Server, notifier: RedisNotifier, waiters: Waiters) -> None:
        server.confirms = False
        await notifier.receive("ring:a", "a", 0.001)
        patient = asyncio.create_task(notifier.receive("ring:a", "a", 60.0))
        server.lines[0].say({"type": "subscribe", "channel": b"ring:a", "data": 1})
        await patient
        assert len(server.lines) == 1

    story(told)


def test_one_who_is_canceled_does_not_take_the_others_along() -> None:
    async def told(server: Server, notifier: RedisNotifier, waiters: Waiters) -> None:
        begun, never = asyncio.Event(), asyncio.Event()

        async def hang(line: Line) -> None:
            begun.set()
            await never.wait()

        server.meanwhile = hang
        first = asyncio.create_task(notifier.receive("ring:a", "a", 60.0))
        await begun.wait()
        second = asyncio.create_task(notifier.receive("ring:a", "a", 60.0))
        await asyncio.sleep(0)
        server.meanwhile = _nothing
        first.cancel()
        await second
        await notifier.receive("ring:a", "a", 60.0)
        assert first.cancelled() and len(server.lines) == 1

    story(told)


@pytest.mark.parametrize("data", [b"a joke", b"", b"-1", b"9" * 5_000, b"\xff", b"1.5"])
def test_a_ring_that_is_no_number_is_a_ring(data: bytes) -> None:
    async def told(server: Server, notifier: RedisNotifier, waiters: Waiters) -> None:
        await notifier.receive("ring:a", "a", 60.0)
        with waiters.waiting("a") as waiter:
            server.lines[0].say({"type": "message", "channel": b"ring:a", "data": data})
            await waiter.wait(60.0)
            await notifier.receive("ring:a", "a", 60.0)
        assert len(server.lines) == 1

    story(told)
