"""The principal's store on the kernel's database, and the context of a transition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from afl.kernel.clock import wall_ms
from afl.kernel.database import Database, Schema, Transaction, queries

T = TypeVar("T")
Q = queries("afl.fleet.principal", "sql")
SCHEMA = Schema("afl.fleet.principal", "sql", component="fleet", base=4)
VIEWS = Schema("afl.fleet.principal", "sql/views", component="fleet-views")
LOGS = "logs"  # the topic of lines of any run


@dataclass(slots=True)
class Notifications:
    """Notifications after a commit: topics, and the number of queued runs, each of which wakes one waiting agent."""

    topics: set[str] = field(default_factory=set)
    queued: int = 0


class Change:
    """One transition: its transaction, its time, and its notifications."""

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
        """When a lease that is taken or renewed now will end."""
        return self.moment + self._store.lease_ms

    def notify_run(self, run_id: str) -> None:
        self.notifications.topics.add(run_topic(run_id))

    def notify_agent(self, incarnation: str) -> None:
        self.notifications.topics.add(agent_topic(incarnation))


class FleetStore:
    """Every transition runs through `change`, every query through `read`."""

    def __init__(
        self,
        database: Database,
        *,
        lease_ms: int,
        clock: Callable[[], int] | None = None,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        """`clock` replaces the store's own in tests."""
        self.database = database
        self.lease_ms = lease_ms
        self.wall = wall
        self._clock = clock
        database.ensure(SCHEMA)
        database.ensure(VIEWS)

    def change(self, work: Callable[[Change], T]) -> tuple[T, Notifications]:
        """The result of the transition, once it is durable, and its notifications."""
        return self.database.write(lambda tx: self._transition(tx, work))

    async def change_async(self, work: Callable[[Change], T]) -> tuple[T, Notifications]:
        """`change` from asyncio."""
        return await self.database.run("write", lambda tx: self._transition(tx, work))

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self.database.read(work)

    async def read_async(self, work: Callable[[Transaction], T]) -> T:
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
