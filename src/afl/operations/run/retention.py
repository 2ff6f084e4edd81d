"""Retention: removing what ended long ago, a few at a time so that nobody waits long for the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afl.kernel.clock import wall_ms
from afl.kernel.errors import CapabilityError
from afl.operations.parameters import Milliseconds
from afl.runtime.persistence import PersistenceAPI, RunFilter

BATCH = 100
_PAGE = 1_000


@dataclass(frozen=True)
class Pruned:
    """How many runs, and tasks of no run, were removed (or would be), and the time before which they ended."""

    runs: int
    ended_before: int
    dry_run: bool
    tasks: int = 0  # servers of an earlier release do not tell


def prune(
    store: PersistenceAPI,
    older_than_ms: Milliseconds,
    *,
    dry_run: bool = False,
    batch: int = BATCH,
    progress: Callable[[int], None] | None = None,
) -> Pruned:
    """Remove runs that ended longer ago than this, with their steps, tasks and logs, and what belongs to no run.

    `progress` is told after each batch how many are gone.
    """
    if "retention" not in store.capabilities:
        raise CapabilityError("this store cannot remove runs; use SQLite or PostgreSQL")
    before = wall_ms() - older_than_ms
    if dry_run:
        return Pruned(_count(store, before), before, True, store.count_old_tasks(before))
    gone = [0, 0, 0]
    for kind, delete in enumerate((store.delete_runs, store.delete_tasks, store.delete_logs)):
        while count := delete(before, batch):
            gone[kind] += count
            if progress is not None:
                progress(sum(gone))
    return Pruned(gone[0], before, False, gone[1])


def _count(store: PersistenceAPI, before: int) -> int:
    count, last = 0, ""
    while page := store.find_runs(RunFilter(before=last, limit=_PAGE)):
        count += sum(run.is_over and run.ended < before for run in page)
        last = page[-1].workflow_id
    return count
