"""Locks of a store that one process holds at a time, until it gives them back or dies."""

from __future__ import annotations

from afl.kernel.presence import Life
from afl.runtime.persistence import PersistenceAPI


def take_lock(store: PersistenceAPI, key: str, duration_ms: int) -> bool:
    """Whether this process has the lock, now or already; a holder that is proven dead loses it."""
    holder = store.check_lock(key)
    if holder is not None and store.life(holder.owner) is Life.DEAD:
        store.release_lock(key, owner=holder.owner)
    return store.acquire_lock(key, duration_ms, owner=store.owner_id)
