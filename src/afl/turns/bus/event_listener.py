"""Listens for the ends of turns and for text while a model streams it. Both are hints: the store is the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from afl.turns.bus import Subscription
from afl.turns.engine import L0Engine
from afl.turns.message import Message
from afl.turns.protocol.subjects import chunk_subject, event_subject, parse_subject


class EventListener:
    """For one project."""

    def __init__(self, engine: L0Engine, project: str) -> None:
        self._engine = engine
        self._project = project
        self._ends: dict[str, asyncio.Event] = {}
        self._words: dict[str, list[Callable[[str], None]]] = {}
        self._subscriptions: list[Subscription] = []
        self._receives_text = False

    async def start(self, *, words: bool = True) -> None:
        """Subscribe to the ends of turns, and with `words` to streamed text."""
        subject = event_subject(self._project, "*", "*", "task")
        self._subscriptions.append(await self._engine.bus.subscribe([subject], self._on_end))
        if words:
            await self.subscribe_text()

    async def subscribe_text(self) -> None:
        """Subscribe to streamed text. These messages are many, so only a caller that needs them subscribes."""
        if not self._receives_text:
            self._receives_text = True
            subject = chunk_subject(self._project, "*", "*")
            self._subscriptions.append(await self._engine.bus.subscribe([subject], self._on_chunk))

    async def close(self) -> None:
        for subscription in self._subscriptions:
            await subscription.close()

    @contextmanager
    def end_of(self, turn_id: str) -> Iterator[Callable[[], asyncio.Future[bool]]]:
        """A function that returns a future for the next event that the turn ended."""
        event = self._ends.setdefault(turn_id, asyncio.Event())
        waiting: list[asyncio.Future[bool]] = []

        def received() -> asyncio.Future[bool]:
            if not waiting or waiting[0].done():
                waiting[:] = [asyncio.ensure_future(event.wait())]
                event.clear()
            return waiting[0]

        try:
            yield received
        finally:
            self._ends.pop(turn_id, None)
            for each in waiting:
                each.cancel()

    @contextmanager
    def text_of(self, agent_id: str, on_text: Callable[[str], None] | None) -> Iterator[None]:
        """Call a function with the streamed text of an agent while the block lasts; after `subscribe_text`."""
        if on_text is None:
            yield
            return
        listeners = self._words.setdefault(agent_id, [])
        listeners.append(on_text)
        try:
            yield
        finally:
            listeners.remove(on_text)

    async def _on_end(self, message: Message) -> None:
        turn_id = message.payload.get("agent_turn_id")
        event = self._ends.get(turn_id) if isinstance(turn_id, str) else None
        if event is not None:
            event.set()

    async def _on_chunk(self, message: Message) -> None:
        words = message.payload.get("content")
        if message.payload.get("chunk_type") == "content" and isinstance(words, str):
            for listener in list(self._words.get(parse_subject(message.subject).target, ())):
                listener(words)
