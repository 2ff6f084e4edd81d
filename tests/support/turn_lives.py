"""Processes of turns that die at a chosen commit, without processes: what is dead neither reads nor writes any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from afl.kernel.database import Database, Query, Row, Transaction
from afl.kernel.errors import StoreError
from afl.kernel.presence import Life, Presence, Process
from support.lives import Death

T = TypeVar("T")


class Mortal(Presence):
    """One of several processes on a store: the others can prove that it is dead."""

    def __init__(self, name: str, dead: set[str]) -> None:
        self._name = name
        self._dead = dead

    @property
    def id(self) -> str:
        return self._name

    def proof(self, owner: str) -> Life:
        return Life.DEAD if owner in self._dead else Life.ALIVE

    def process(self, owner: str) -> Process | None:
        return None

    def close(self) -> None:
        pass

    def forked(self) -> None:
        pass


class MortalProcess:
    """The database as one process sees it, until the write that it dies at. `is_dead` is set then."""

    def __init__(self, database: Database, name: str, dead: set[str]) -> None:
        self._database = database
        self._dead = dead
        self._death: Death | None = None
        self.presence = Mortal(name, dead)
        self.is_dead = asyncio.Event()
        self.writes = 0
        self._hanging: list[asyncio.Future[None]] = []

    def doom(self, death: Death | None) -> None:
        """Let it die at a write, counted from now."""
        self._death, self.writes = death, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __hash__(self) -> int:  # notifiers of a store in memory are found by the database
        return hash(self._database)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._database or getattr(other, "_database", None) is self._database

    async def run(self, verb: Literal["read", "write"], work: Callable[[Transaction], T]) -> T:
        await self._go_on()
        if verb == "read":
            return await self._database.run("read", work)
        self.writes += 1
        death = self._death
        is_last = death is not None and self.writes == death.write
        if death is not None and is_last and not death.after:
            await self.die()
        result = await self._database.run("write", work)
        if is_last and self._death is not None:  # the test may be over by now
            await self.die()
        return result

    async def fetch(self, query: Query, /, **params: Any) -> list[Row]:
        await self._go_on()
        return await self._database.fetch(query, **params)

    def write(self, work: Callable[[Transaction], T], *, durable: bool = True) -> T:
        if self.is_dead.is_set():
            raise StoreError("this process is gone")
        return self._database.write(work, durable=durable)

    async def die(self) -> None:
        """Never returns: whoever called does nothing any more."""
        self._dead.add(self.presence.id)
        self.is_dead.set()
        await self._go_on()

    def clear(self) -> None:
        """The test is over: it dies no more, and what it did when it died is given up."""
        self._death = None
        self.is_dead.clear()
        for each in self._hanging:
            each.cancel()

    async def _go_on(self) -> None:
        if self.is_dead.is_set():
            self._hanging.append(asyncio.get_running_loop().create_future())
            await self._hanging[-1]
