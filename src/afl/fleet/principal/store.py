"""The principal's store over the kernel's database, and what a transition is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from afl.kernel.clock import wall_ms
from afl.kernel.database import Database, Schema, Transaction, queries

T = TypeVar("T")
Q = queries("afl.fleet.principal", "sql")
SCHEMA = Schema("afl.fleet.principal", "sql", component="fleet", base=3)
VIEWS = Schema("afl.fleet.principal", "sql/views", component="fleet-views")
LOGS = "logs"  # the topic of those who wait for lines of any run


@dataclass(slots=True)
class Notifications:
    """Whom to wake after a commit: those who listen to a topic, and as many waiting agents as runs were queued."""

    topics: set[str] = field(default_factory=set)
    queued: int = 0


class Change:
    """One transition: its transaction, its time, and whom to wake once it is committed."""

    def __init__(self, tx: Transaction, store: FleetStore) -> None:
        self.tx = tx
        self.at = store.wall()
        self.notifications = Notifications()
        self._store = store

    @cached_property
    def moment(self) -> int:
        """The store's clock, by which leases end."""
        return self._store.moment(self.tx)

    @property
    def lease_until(self) -> int:
        """When a hold that is taken or renewed now will end."""
        return self.moment + self._store.lease_ms

    def notify_run(self, run_id: str) -> None:
        self.notifications.topics.add(run_topic(run_id))

    def notify_agent(self, incarnation: str) -> None:
        self.notifications.topics.add(agent_topic(incarnation))


class FleetStore:
    """Every transition runs through `change`, every question through `read`."""

    def __init__(
        self,
        database: Database,
        *,
        lease_ms: int,
        clock: Callable[[], int] | None = None,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        """`clock` takes the place of the store's own in tests."""
        self.database = database
        self.lease_ms = lease_ms
        self.wall = wall
        self._clock = clock
        database.ensure(SCHEMA)
        database.ensure(VIEWS)

    def change(self, work: Callable[[Change], T]) -> tuple[T, Notifications]:
        """What the transition returns, once it is durable, and whom to wake."""
        return self.database.write(lambda tx: self._transition(tx, work))

    async def change_soon(self, work: Callable[[Change], T]) -> tuple[T, Notifications]:
        """`change` from asyncio."""
        return await self.database.run("write", lambda tx: self._transition(tx, work))

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self.database.read(work)

    async def read_soon(self, work: Callable[[Transaction], T]) -> T:
        """`read` from asyncio."""
        return await self.database.run("read", work)

    def moment(self, tx: Transaction) -> int:
        """The store's clock."""
        if self._clock is not None:
            return self._clock()
        row = tx.one(Q.store_clock)
        assert row is not None
        moment: int = row["moment"]
        return moment

    def _transition(self, tx: Transaction, work: Callable[[Change], T]) -> tuple[T, Notifications]:
        change = Change(tx, self)
        return work(change), change.notifications


def run_topic(run_id: str) -> str:
    return f"run:{run_id}"


def agent_topic(incarnation: str) -> str:
    return f"agent:{incarnation}"


def logs_topic(instance_id: str) -> str:
    return f"logs:{instance_id}"
