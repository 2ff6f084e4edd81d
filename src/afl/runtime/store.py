"""Opening a store by its URL."""

from __future__ import annotations

from urllib.parse import urlsplit

from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.kernel.file_lock import LOCK_TIMEOUT_MS
from afl.kernel.lease import LEASE_MS, MAX_DELIVERIES
from afl.kernel.settings import Settings
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.sqlite_store import SqliteStore

_KNOWN = (
    "sqlite:///path/to/file.db, postgresql://user@host/database, mongodb://host/?replicaSet=rs0 or memory://"
)


def open_store(
    url: str,
    *,
    lease_ms: int = LEASE_MS,
    max_deliveries: int = MAX_DELIVERIES,
    doorbell: str = "auto",
    lock_timeout_ms: int = LOCK_TIMEOUT_MS,
) -> PersistenceAPI:
    """The store behind a URL; InputError for a kind that is not known.

    `lock_timeout_ms` is how long a write to an SQLite file waits for other processes.
    """
    store = _open(url, lock_timeout_ms)
    store.lease_ms, store.max_deliveries, store.doorbell = lease_ms, max_deliveries, doorbell
    return store


def store_of(settings: Settings) -> PersistenceAPI:
    """The store of the settings, which also say how large a value may be."""
    codec.set_payload_limit(settings.max_payload_bytes)
    return open_store(
        settings.store,
        lease_ms=settings.lease_ms,
        max_deliveries=settings.max_deliveries,
        doorbell=settings.doorbell,
        lock_timeout_ms=settings.lock_timeout_ms,
    )


def _open(url: str, lock_timeout_ms: int) -> PersistenceAPI:
    scheme = urlsplit(url).scheme
    if scheme == "memory":
        return MemoryStore()
    if scheme == "sqlite":
        return SqliteStore(url, lock_timeout_ms)
    if scheme in ("postgresql", "postgres"):
        return PostgresStore(url)
    if scheme in ("mongodb", "mongodb+srv"):
        from afl.runtime.mongo_store import MongoStore  # noqa: PLC0415  needs an extra

        return MongoStore(url)
    raise InputError(f"the store {url!r} is of no known kind; give {_KNOWN}")
