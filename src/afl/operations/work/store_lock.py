"""Whether one process keeps all others from writing to the store: the write lock of an SQLite file."""

from __future__ import annotations

from dataclasses import dataclass

from afl.runtime.persistence import PersistenceAPI


@dataclass(frozen=True)
class StoreLock:
    """`holder` is empty if everybody can write. `remedy` says what to do about the holder."""

    holder: str = ""
    remedy: str = ""
    pid: int = 0


def store_lock(store: PersistenceAPI) -> StoreLock:
    """Who keeps all others from writing, if anybody: a process that is stopped, or does not let go for a second."""
    found = store.write_lock()
    return StoreLock() if found is None else StoreLock(found.words, found.remedy, found.pid)
