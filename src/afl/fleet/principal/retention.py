"""Deletes runs that ended long ago, with their tasks, statuses and lines, in small transactions."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from afl.fleet.principal.context import PrincipalContext
from afl.fleet.principal.store import Change, Q
from afl.kernel.errors import StoreError
from afl.kernel.isolation import STORE_TROUBLE, Isolation

_log = logging.getLogger(__name__)
_DAY_MS = 86_400_000
_PAUSE_S = 60.0
RUNS = 20  # in one transition
BLOCKS = 200  # of lines, in one transition


class Retention:
    """Keeps what is younger than `days` days."""

    def __init__(self, context: PrincipalContext, days: int) -> None:
        self._context = context
        self._age_ms = days * _DAY_MS
        self._isolation = Isolation(_log, "retention")

    async def serve(self) -> None:
        """Run until canceled."""
        while True:
            try:
                with self._isolation.item("this look"):
                    await self.look()
            except StoreError as error:
                _log.error("retention waits for the store: %s", error)
            await asyncio.sleep(_PAUSE_S)

    async def look(self) -> int:
        """Delete everything that is too old; the number of runs."""
        removed = 0
        while True:
            gone, more = await self._forget_some()
            removed += gone
            if not more:
                break
        if removed:
            _log.info("removed %d runs that ended more than %d days ago", removed, self._age_ms // _DAY_MS)
        return removed

    async def _forget_some(self) -> tuple[int, bool]:
        """As `forget`. A run that cannot be deleted stays, and the others are deleted."""
        try:
            return await self._context.change(lambda change: forget(change, change.at - self._age_ms))
        except STORE_TROUBLE:
            raise
        except Exception:
            return await self._forget_each()

    async def _forget_each(self) -> tuple[int, bool]:
        runs = await self._context.change(lambda change: old_runs(change, change.at - self._age_ms))
        removed = 0
        for run_id in runs:
            with self._isolation.item(f"run {run_id}"):
                while await self._context.change(partial(forget_run, run_id=run_id, room=BLOCKS)) <= 0:
                    continue
                removed += 1
        return removed, removed > 0 and len(runs) == RUNS


def forget(change: Change, before: int) -> tuple[int, bool]:
    """Delete some of the runs that ended before a time: how many, and whether there may be more.

    The last status of each workflow stays.
    """
    found = old_runs(change, before)
    room = BLOCKS
    for gone, run_id in enumerate(found):
        room = forget_run(change, run_id, room)
        if room <= 0:
            return gone, True
    return len(found), len(found) == RUNS


def old_runs(change: Change, before: int) -> list[str]:
    """Some of the runs that ended before a time, the oldest first."""
    return [run["run_id"] for run in change.tx.all(Q.old_runs, before=before, limit=RUNS)]


def forget_run(change: Change, run_id: str, room: int) -> int:
    """Delete a run, and at most `room` blocks of its lines; the remaining room.

    Without remaining room there may be more lines, and the run stays.
    """
    for row in change.tx.all(Q.instances_of, run_id=run_id):
        room -= change.tx.run(Q.forget_lines, instance_id=row["instance_id"], limit=room)
        if room <= 0:
            return room
    for query in (Q.clear_tasks, Q.forget_task_statuses, Q.forget_run_statuses, Q.forget_run):
        change.tx.run(query, run_id=run_id)
    return room
