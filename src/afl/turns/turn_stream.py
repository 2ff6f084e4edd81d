"""The events of a turn as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from afl.kernel.database import Transaction
from afl.kernel.errors import StoreUnavailable
from afl.turns.engine import L0Engine
from afl.turns.model import TurnRef
from afl.turns.topics import turn_topic
from afl.turns.turn_events import AgentEvent, AgentEventPage, EventPosition, read_turn_page

PAGE_SIZE = 1_000
POLL_SECONDS = 1.0  # a notification may be lost
_AWAY_SECONDS = 0.25


async def follow_turn(engine: L0Engine, turn: TurnRef, after: str = "") -> AsyncGenerator[AgentEvent, None]:
    """The events of a turn after a position, until it is over; across outages of the store."""
    place = EventPosition.of(after)

    def read(tx: Transaction) -> AgentEventPage:
        return read_turn_page(tx, turn.project_id, turn.agent_turn_id, place, PAGE_SIZE)

    with engine.notifier.subscribe([turn_topic(turn.agent_turn_id)]) as subscription:
        while True:
            try:
                page = await engine.database.run("read", read)
            except StoreUnavailable:
                await asyncio.sleep(_AWAY_SECONDS)
                continue
            for event in page.events:
                yield event
            if page.over:
                return
            place = EventPosition.of(page.position)
            if len(page.events) < PAGE_SIZE:
                await subscription.wait_async(POLL_SECONDS)
