"""Concurrency keys: at most so many tasks of one key are open without a hold."""

from __future__ import annotations

from collections.abc import Iterable

from afl.kernel.clock import wall_ms
from afl.kernel.database import Transaction
from afl.kernel.notify import Notifications
from afl.runtime.persistence.topics import ELSEWHERE_TOPIC, tasks_topic
from afl.runtime.stores.sql_store.tables import Q


def lock_keys(tx: Transaction, keys: Iterable[str]) -> None:
    """Before tasks of several keys are written: whoever promotes has the key first and the tasks then."""
    for key in sorted({key for key in keys if key}):
        tx.one(Q.lock_key, key=key)


def promote(tx: Transaction, keys: Iterable[str], notifications: Notifications) -> None:
    """Let the first ones that wait for these keys be claimed, as far as there is room.

    It only counts and fills, so it may be called once too often; never calling it again would leave a slot empty.
    """
    for key in sorted(
        {key for key in keys if key}
    ):  # in one order, so that two of these cannot block each other
        tx.one(Q.lock_key, key=key)
        standing = tx.one(Q.key_standing, key=key)
        assert standing is not None  # it counts
        free = 0 if standing["allowed"] is None else standing["allowed"] - standing["active"]
        if free > 0:
            for row in tx.all(Q.promote, key=key, free=free, updated=wall_ms()):
                notifications.add(tx, ELSEWHERE_TOPIC if row["via"] else tasks_topic(row["task_list_name"]))
