"""An engine at work on some bus, and what is heard of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from afl.kernel.database import Database
from afl.turns.bus import open_bus
from afl.turns.engine import L0Engine
from afl.turns.message import Message
from afl.turns.model import L0Result
from afl.turns.transitions import finish
from support.eventually import PATIENCE_SECONDS
from support.turns_house import House


class Heard:
    """Collects messages, and says when there are enough."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._news = asyncio.Event()

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)
        self._news.set()

    async def until(self, count: int) -> list[Message]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.messages) < count:
                self._news.clear()
                await self._news.wait()
        return self.messages


@asynccontextmanager
async def started(database: Database, url: str, *, relay: bool = True) -> AsyncIterator[L0Engine]:
    engine = L0Engine(database, open_bus(database, url))
    await engine.start(relay=relay)
    try:
        yield engine
    finally:
        await engine.close()


def turn(house: House, agent: str = "ada") -> str:
    """A turn from its beginning to its end; its id. What it left in the outbox is nobody's yet."""
    return turn_ended(house, agent)[0]


def turn_ended(house: House, agent: str = "ada") -> tuple[str, L0Result]:
    """`turn`, and what its end answered: to publish, or not."""
    head = house.running(agent)
    ended = house.write(lambda tx: finish(tx, head, house.ending(head)))
    return head.active_agent_turn_id or "", ended
