"""What all the tables of the SQL stores share: the database, the queries, the notifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from afl.kernel.database import Database, Schema, Transaction, queries
from afl.kernel.file_lock import LockHolder
from afl.kernel.notify import Notifications, Notifier, open_notifier
from afl.kernel.presence import Life
from afl.runtime.stores.store_base import StoreBase

Q = queries("afl.runtime.stores.sql_store", "sql")
SCHEMA = Schema("afl.runtime.stores.sql_store", "sql", component="runtime", base=8)

T = TypeVar("T")


class Tables(StoreBase):
    """A group of tables in a database."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"concurrency", "schedules", "budgets", "retention"})
    database: Database

    @property
    def owner_id(self) -> str:
        """The name under which this process holds runs and tasks."""
        return self.database.presence.id

    def describe(self, owner: str) -> str:
        """An owner in words."""
        return self.database.presence.describe(owner)

    def life(self, owner: str) -> Life:
        """What can be said about an owner's process."""
        return self.database.presence.proof(owner)

    def write_lock(self) -> LockHolder | None:
        """The process that keeps all others from writing, if there is one."""
        return self.database.write_lock()

    def now(self) -> int:
        """The store's clock."""
        return self.database.now()

    def _new_notifier(self) -> Notifier:
        return open_notifier(self.database, self.doorbell)

    def notifying(self, work: Callable[[Transaction, Notifications], T]) -> T:
        """A write transaction that notifies when it has committed."""
        with self.notifier.batch() as notifications:
            return self.database.write(lambda tx: work(tx, notifications))


LAST_CHARACTER = "\U0010ffff"  # behind every id that begins with a prefix
FIRST_CHARACTER = "\x01"  # with it, an id comes before every longer one


def via_range(via: str) -> dict[str, str]:
    """Where the work goes on, as a whole ("human:finance") or by its kind ("human"), as parameters of a query."""
    if not via:
        return {"via_from": "", "via_beyond": LAST_CHARACTER}
    if ":" in via:
        return {"via_from": via, "via_beyond": via + FIRST_CHARACTER}
    return {"via_from": f"{via}:", "via_beyond": f"{via};"}  # the semicolon comes after the colon
