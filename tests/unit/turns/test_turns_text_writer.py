"""What models say is stored for those who read along, as well as the store allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from afl.kernel.errors import StoreUnavailable
from afl.turns.engine import L0Engine
from afl.turns.model import Head
from afl.turns.worker.text_writer import TextWriter

HEAD = cast(
    Head, SimpleNamespace(project_id="p", agent_id="ada", active_agent_turn_id="turn_1", turn_epoch=3)
)


class Store:
    """Stands for the engine and its database: fails as often as it is told to, and keeps what is stored."""

    def __init__(self, failures: int = 0) -> None:
        self.database = self
        self.failures = failures
        self.stored: list[str] = []
        self.told: list[str] = []
        self.tried = asyncio.Event()

    async def run(self, mode: str, work: Callable[[Any], None]) -> None:
        self.tried.set()
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("away")
        work(self)

    def queue(self, query: object, *, said: str, **about: object) -> None:
        assert about == {"project": "p", "agent": "ada", "turn": "turn_1", "step": "step_1", "epoch": 3}
        self.stored.append(said)

    def changed(self, turn: str) -> None:
        self.told.append(turn)

    async def next_try(self) -> None:
        await asyncio.wait_for(self.tried.wait(), 60)
        self.tried.clear()


def test_a_store_that_was_away_gets_the_whole_text_with_the_next_piece() -> None:
    async def story() -> None:
        store = Store(failures=1)
        writer = TextWriter(cast(L0Engine, store))
        with writer.of(HEAD, "step_1") as say:
            say("It \0")
            await store.next_try()
            assert (store.stored, store.told) == ([], [])
            say("is")
            await store.next_try()
        assert (store.stored, store.told) == (["It \ufffdis"], ["turn_1"])
        writer.close()

    asyncio.run(story())


def test_a_text_whose_call_is_over_is_not_stored() -> None:
    """Its card follows at once, and another text of the agent may have been stored by then."""

    async def story() -> None:
        store = Store()
        writer = TextWriter(cast(L0Engine, store))
        with writer.of(HEAD, "step_1") as say:
            say("never")
        with writer.of(HEAD, "step_1") as say:
            say("now")
            await store.next_try()
        assert store.stored == ["now"]
        writer.close()

    asyncio.run(story())
