"""Whether commits notify other processes, tried within one process by a transport of its own."""

from __future__ import annotations

from typing import Protocol

from afl.kernel.ids import random_id
from afl.kernel.notify import Notifier
from afl.runtime.entities import LockMetaData

_LOCK_MS = 10_000


class Committing(Protocol):
    """What a commit is made with."""

    def acquire_lock(
        self, key: str, duration_ms: int, meta: LockMetaData | None = None, *, owner: str = ""
    ) -> bool: ...

    def release_lock(self, key: str, *, owner: str = "") -> bool: ...


def is_received(store: Committing, own: Notifier, other: Notifier, timeout: float) -> bool | None:
    """Whether `other` receives what `own` notifies after a commit; None if it reaches only its own process."""
    if not other.crosses_processes:
        return None
    topic = f"doctor:{random_id()}"
    with other.subscribe([topic]) as subscription:
        if not other.connected(timeout):
            return False
        subscription.wait(0)  # the connection itself notifies
        store.acquire_lock(topic, _LOCK_MS)  # an SQLite file notifies by its commits alone
        own.notify(topic)
        store.release_lock(topic)
        return topic in subscription.wait(timeout)
