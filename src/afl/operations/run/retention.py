"""Retention: removing runs that ended long ago, a few at a time so that nobody waits long for the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afl.kernel.clock import wall_ms
from afl.kernel.errors import CapabilityError
from afl.operations.bounds import Milliseconds
from afl.runtime.persistence import PersistenceAPI

BATCH = 100
_PAGE = 1_000


@dataclass(frozen=True)
class Pruned:
    """How many runs were removed (or would be), and the time before which they ended."""

    runs: int
    ended_before: int
    dry_run: bool


def prune(
    store: PersistenceAPI,
    older_than_ms: Milliseconds,
    *,
    dry_run: bool = False,
    batch: int = BATCH,
    progress: Callable[[int], None] | None = None,
) -> Pruned:
    """Remove runs that ended longer ago than this, with their steps, tasks and logs.

    `progress` is told after each batch how many are gone.
    """
    if "retention" not in store.capabilities:
        raise CapabilityError("this store cannot remove runs; use SQLite or PostgreSQL")
    before = wall_ms() - older_than_ms
    if dry_run:
        return Pruned(_count(store, before), before, True)
    removed = 0
    while gone := store.delete_runs(before, batch):
        removed += gone
        if progress is not None:
            progress(removed)
    return Pruned(removed, before, False)


def _count(store: PersistenceAPI, before: int) -> int:
    count, last = 0, ""
    while page := store.find_runs(before=last, limit=_PAGE):
        count += sum(run.is_over and run.ended < before for run in page)
        last = page[-1].workflow_id
    return count
