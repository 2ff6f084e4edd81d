"""Stores what the models of a worker are saying, for those who read along in other processes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from afl.kernel.errors import AgentFlowError
from afl.turns.engine import L0Engine
from afl.turns.model import Head
from afl.turns.store.live_text import LiveText, store_texts

FIRST_SECONDS = 0.005  # a reply that is complete by then is not stored twice: its card follows at once
EACH_SECONDS = 0.05
_SHARE = 4  # writing takes at most one part in five of the time

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Said:
    """The text of one call of a model."""

    head: Head
    step_id: str
    pieces: list[str] = field(default_factory=list)

    def text(self) -> LiveText:
        self.pieces[:] = ["".join(self.pieces).replace("\0", "\ufffd")]  # which PostgreSQL cannot store
        head, turn = self.head, self.head.active_agent_turn_id or ""
        return LiveText(head.project_id, head.agent_id, turn, self.step_id, head.turn_epoch, self.pieces[0])


class TextWriter:
    """One transaction for all calls under way, a few times a second. What cannot be stored is not stored later."""

    def __init__(self, engine: L0Engine) -> None:
        self._engine = engine
        self._unstored: set[_Said] = set()
        self._begun = asyncio.Event()  # a model has said its first piece, which is not kept waiting
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def of(self, head: Head, step_id: str) -> Iterator[Callable[[str], None]]:
        """A function that takes the next piece of a model's text, in the event loop, while the block lasts."""
        said = _Said(head, step_id)

        def say(text: str) -> None:
            if not said.pieces:
                self._begun.set()
            said.pieces.append(text)
            self._unstored.add(said)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._store_all())

        try:
            yield say
        finally:
            self._unstored.discard(said)

    def close(self) -> None:
        """Store no more."""
        if self._task is not None:
            self._task.cancel()

    async def _store_all(self) -> None:
        took = 0.0
        while True:
            self._begun.clear()
            await asyncio.sleep(max(FIRST_SECONDS, took * _SHARE))
            if not self._unstored:
                return
            texts = [said.text() for said in self._unstored]
            self._unstored.clear()
            began = time.monotonic()
            await self._store(texts)
            took = time.monotonic() - began
            with suppress(TimeoutError):
                await asyncio.wait_for(self._begun.wait(), EACH_SECONDS)

    async def _store(self, texts: list[LiveText]) -> None:
        try:
            await self._engine.database.run("write", lambda tx: store_texts(tx, texts))
        except AgentFlowError as error:
            _log.debug("the text of %d models was not stored: %s", len(texts), error)
            return
        for text in texts:
            self._engine.changed(text.agent_turn_id)
