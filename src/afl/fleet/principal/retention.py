"""Removes runs that ended long ago, with their tasks, statuses and lines: a little at a time, so that nobody waits."""

from __future__ import annotations

import asyncio
import logging

from afl.fleet.principal.desk import Desk
from afl.fleet.principal.store import Change, Q
from afl.kernel.errors import StoreError

_log = logging.getLogger(__name__)
_DAY_MS = 86_400_000
_PAUSE_S = 60.0
RUNS = 20  # in one transition
BLOCKS = 200  # of lines, in one transition


class Retention:
    """Keeps what is younger than so many days."""

    def __init__(self, desk: Desk, days: int) -> None:
        self._desk = desk
        self._age_ms = days * _DAY_MS

    async def serve(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except StoreError as error:
                _log.error("old runs stay until the store answers: %s", error)
            await asyncio.sleep(_PAUSE_S)

    async def look(self) -> int:
        """Remove everything that is too old; how many runs that were."""
        removed = 0
        while True:
            gone, more = await self._desk.change(lambda change: forget(change, change.at - self._age_ms))
            removed += gone
            if not more:
                break
        if removed:
            _log.info("removed %d runs that ended more than %d days ago", removed, self._age_ms // _DAY_MS)
        return removed


def forget(change: Change, before: int) -> tuple[int, bool]:
    """Some of the runs that ended before a time: how many are gone, and whether there may be more.

    The last status of each workflow stays: it says how the workflow went when it last ran.
    """
    tx = change.tx
    found = tx.all(Q.old_runs, before=before, limit=RUNS)
    room = BLOCKS
    for gone, run in enumerate(found):
        for row in tx.all(Q.instances_of, run_id=run["run_id"]):
            room -= tx.run(Q.forget_lines, instance_id=row["instance_id"], limit=room)
            if room <= 0:  # there may be more lines of this one
                return gone, True
        for query in (Q.clear_tasks, Q.forget_task_statuses, Q.forget_run_statuses, Q.forget_run):
            tx.run(query, run_id=run["run_id"])
    return len(found), len(found) == RUNS
