"""Where turns are kept, for operations: the store of the settings, and its database if it is open already."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from afl.kernel.database import Database, connect
from afl.kernel.errors import CapabilityError
from afl.kernel.settings import Settings
from afl.operations.store_file import require_file
from afl.turns.agents import Agents
from afl.turns.bus import open_bus
from afl.turns.bus.local import LocalBus
from afl.turns.engine import L0Engine
from afl.turns.errors import BusUnavailable
from afl.turns.model import Limits
from afl.turns.store.tables import ensure_tables

T = TypeVar("T")
_log = logging.getLogger("afl.turns")


@dataclass(frozen=True)
class TurnStore:
    """`database` is that of the settings' store, if this process has it open: a server, which is asked often, would
    else connect for each request, and PostgreSQL takes 100 ms for that on a busy machine."""

    settings: Settings
    database: Database | None = None

    @property
    def project(self) -> str:
        """Whose agents they are."""
        return self.settings.project

    @contextmanager
    def connected(self) -> Iterator[Database]:
        """The database: the one that is open, which stays so, or one for the block."""
        if self.database is not None:
            yield self.database
            return
        _check_store(self.settings)
        database = connect(self.settings.store, lock_timeout_ms=self.settings.lock_timeout_ms)
        try:
            yield database
        finally:
            database.close()


def limits_of(settings: Settings) -> Limits:
    """What the settings say of turns."""
    return Limits(
        lease_ms=settings.lease_ms,
        max_takeovers=settings.max_deliveries,
        inline_bytes=settings.inline_file_bytes,
        file_bytes=settings.max_file_bytes,
        blob_days=settings.file_days,
    )


@asynccontextmanager
async def opened(where: TurnStore) -> AsyncIterator[Agents]:
    """The agents of a store, for somebody who asks: the turns are worked on elsewhere.

    A bus that is away costs latency only, so it is told in the log and done without.
    """
    with ExitStack() as stack:
        database = await asyncio.to_thread(stack.enter_context, where.connected())
        engine = await _engine(database, where.settings)
        agents = Agents(engine, where.project)
        await agents.listen()
        try:
            yield agents
        finally:
            await agents.close()
            await engine.close()
            await asyncio.to_thread(stack.close)


def _check_store(settings: Settings) -> None:
    """CapabilityError for a store that keeps no turns, StoreUnavailable for a file that is not there."""
    if settings.store.startswith("mongodb"):
        raise CapabilityError("turns are kept by stores on SQLite and PostgreSQL; this one is on MongoDB")
    require_file(settings.store)


@contextmanager
def reading(where: TurnStore) -> Iterator[Database]:
    """The database of the agents, for somebody who only looks: no bus is needed for that."""
    with where.connected() as database:
        ensure_tables(database)
        yield database


async def _engine(database: Database, settings: Settings) -> L0Engine:
    engine = L0Engine(database, open_bus(database, settings.bus), limits_of(settings), settings.blobs)
    try:
        await engine.start(relay=False)
    except BusUnavailable as error:
        _log.warning("%s; workers will find new messages by polling", error)
        engine = L0Engine(database, LocalBus(database), engine.limits, settings.blobs)
        await engine.start(relay=False)
    return engine


def with_agents(where: TurnStore, work: Callable[[Agents], Awaitable[T]]) -> T:
    """One piece of asynchronous work on the agents of a store."""

    async def working() -> T:
        async with opened(where) as agents:
            return await work(agents)

    return asyncio.run(working())
