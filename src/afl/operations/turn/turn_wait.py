"""Waiting for turns: the delivery of one, and the events of all agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from afl.kernel.canceling import cancel_and_wait
from afl.kernel.clock import wall_ms
from afl.operations.parameters import LongPoll
from afl.operations.turn import turns
from afl.operations.turn.turn_store import TurnStore, opened, reading
from afl.operations.turn.turns import known_agent
from afl.turns.agents import Agents
from afl.turns.bus.local import LocalBus
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.errors import SubjectError
from afl.turns.message import Message
from afl.turns.model import Head
from afl.turns.protocol.events import state_event
from afl.turns.protocol.subjects import chunk_subject, event_subject, parse_subject
from afl.turns.store.heads import list_heads

_A_LOOK = 0.5  # seconds that a turn which is over may take to be read


def wait(where: TurnStore, turn: str, timeout: LongPoll = 0) -> Delivered | None:
    """What a turn delivered; None if it has not ended within that many seconds."""
    with reading(where) as database:
        found = database.read(lambda tx: turns.find_turn(tx, where.project, turn))
    return turns.wait(where, found, max(timeout, _A_LOOK))


_LOOK_SECONDS = 0.25
_DIGITS = 15


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """One event: `state`, `step`, `task` or `chunk`, with exactly what was published."""

    time: int
    kind: str
    agent: str
    channel: str
    payload: Mapping[str, Any]


async def follow(
    where: TurnStore, agent: str = "", *, words: bool = False, started: Callable[[], None] | None = None
) -> AsyncGenerator[TurnEvent, None]:
    """Events from now on, until the iteration is closed. `words`: what models say, too. `started`: it listens.

    Without a server other processes' states are read off the store; steps and words are heard by their own process.
    """
    async with opened(where) as agents:
        if agent:
            await agents.engine.database.run("read", lambda tx: known_agent(tx, where.project, agent))
        received: asyncio.Queue[Message] = asyncio.Queue()

        async def receive(message: Message) -> None:
            received.put_nowait(message)

        whose = agent or "*"
        patterns = [event_subject(where.project, "*", whose, kind) for kind in ("state", "step", "task")] + (
            [chunk_subject(where.project, "*", whose)] if words else []
        )
        await agents.engine.bus.subscribe(patterns, receive)
        known = {head.agent_id: head for head in await _heads(agents)}
        watch = asyncio.create_task(_watch(agents, agent, known, received)) if _is_local(agents) else None
        if started is not None:
            started()
        try:
            while True:
                event = _event(await received.get())
                if event is not None:
                    yield event
        finally:
            if watch is not None:
                await cancel_and_wait([watch])


def _is_local(agents: Agents) -> bool:
    return isinstance(agents.engine.bus, LocalBus)


async def _watch(
    agents: Agents, agent: str, known: dict[str, Head], received: asyncio.Queue[Message]
) -> None:
    """States as the store has them, told when they change."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        for head in await _heads(agents):
            before = known.get(head.agent_id)
            known[head.agent_id] = head
            if (before is None or before.revision != head.revision) and agent in ("", head.agent_id):
                received.put_nowait(state_event(head, before=before))


async def _heads(agents: Agents) -> list[Head]:
    return await agents.engine.database.run("read", lambda tx: list_heads(tx, agents.project))


def _event(message: Message) -> TurnEvent | None:
    """None for what no worker of ours has told."""
    try:
        subject = parse_subject(message.subject)
    except SubjectError:
        return None
    time = message.headers.get("CG-Timestamp", "")
    moment = int(time) if time.isdecimal() and len(time) < _DIGITS else wall_ms()
    return TurnEvent(moment, subject.suffix, subject.target, subject.channel_id, message.payload)


def moment_of(event: TurnEvent) -> str:
    """When it was told, as a time of day."""
    return datetime.fromtimestamp(event.time / 1000).strftime("%H:%M:%S.%f")[:-3]
