"""Schedules: rows that come due by a cron expression, each fired once, by the first process that sees it due.

Firing and its effect are one transaction: the row moves on to its next time in the transaction that does the work,
so no time fires twice and none is lost, whatever dies. Each schedule is fired by itself. One whose expression cannot
be read is put aside with the reason, one whose effect fails is tried again later, and neither stops the others.

Cron follows the clock on the wall, so here, unlike in leases, that clock decides: the server's on PostgreSQL, the
machine's on SQLite.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from afl.kernel.backoff import Backoff
from afl.kernel.bounds import cut
from afl.kernel.codec import decode, encode
from afl.kernel.cron import Cron, zone_named
from afl.kernel.database import Database, Row, Schema, Transaction, queries
from afl.kernel.errors import ScheduleError
from afl.kernel.isolation import STORE_TROUBLE, Isolation

SCHEMA = Schema("afl.kernel", "sql/schedule", component="schedule")
GRACE_MS = 60_000

_log = logging.getLogger(__name__)
_Q = queries("afl.kernel", "sql/schedule")
_RETRY_MS = Backoff(1_000, cap=300_000)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class CatchUp(StrEnum):
    """What becomes of times that passed while no process was there."""

    NONE = "none"  # they are dropped; a time at most a minute ago still counts as now
    LATEST = "latest"  # the last of them fires once
    ALL = "all"  # every one fires, in order


@dataclass(frozen=True, slots=True)
class Schedule:
    """What shall happen when. `part` says who fires it, `name` is unique there, `data` is handed to the firing."""

    part: str
    name: str
    cron: str
    zone: str = "UTC"
    catch_up: CatchUp = CatchUp.LATEST
    data: Any = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule and where it stands, in milliseconds since the epoch; `error` says why it is stuck or retried."""

    schedule: Schedule
    due: int | None
    fired: int | None
    failures: int
    error: str


@dataclass(frozen=True, slots=True)
class Firing:
    """One time of one schedule. `due` is the time it is for, which may lie well before it fires."""

    part: str
    name: str
    due: int
    data: Any

    @property
    def key(self) -> str:
        """The same whenever this firing is tried again, and different for every other."""
        return f"{self.part}/{self.name}@{self.due}"


class Schedules:
    """The schedules of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._apart = Isolation(_log, "the scheduler")
        database.ensure(SCHEMA)

    def now(self) -> int:
        """The wall clock that decides, in milliseconds."""
        return self._database.wall_clock()

    def put(
        self, tx: Transaction, schedule: Schedule, now: int, *, not_before: int | None = None
    ) -> int | None:
        """Add a schedule or replace the one of its name; the time it is next due.

        Putting back what is there already changes no time, so that a restart loses none that it slept through. A new
        expression, and one that was paused, counts from now, or from `not_before` if that is later.
        """
        cron, zone = Cron.parse(schedule.cron), zone_named(schedule.zone)
        known = tx.one(_Q.get, part=schedule.part, name=schedule.name)
        unpaused = known is not None and known["paused"] and not schedule.paused
        same = known is not None and (known["cron"], known["zone"]) == (schedule.cron, schedule.zone)
        if known is not None and same and not unpaused:
            due: int | None = known["due"]
        else:
            start = _moment(now if not_before is None else max(now, not_before - 1))
            due = _milliseconds(cron.next_after(start, zone))
        tx.run(
            _Q.put,
            part=schedule.part,
            name=schedule.name,
            cron=schedule.cron,
            zone=schedule.zone,
            catch_up=schedule.catch_up.value,
            data=encode(schedule.data, what=f"data of schedule {schedule.name!r}"),
            paused=int(schedule.paused),
            due=due,
            look=None if schedule.paused else due,
        )
        return due

    def remove(self, tx: Transaction, part: str, name: str) -> bool:
        """Whether there was one."""
        return tx.run(_Q.remove, part=part, name=name) > 0

    def show(self, tx: Transaction, part: str) -> list[ScheduleStatus]:
        """All schedules of a part, by name."""
        return [_status(row) for row in tx.all(_Q.show, part=part)]

    def next_look(self, part: str) -> int | None:
        """When the next one of a part will be due; None when there is none."""
        look: int | None = self._database.select(_Q.next_look, part=part)[0]["look"]
        return look

    def fire_due(
        self,
        part: str,
        fire: Callable[[Transaction, Firing], object],
        *,
        now: int | None = None,
        limit: int = 100,
    ) -> int:
        """Fire what is due, each in a transaction of its own; how many fired.

        `fire` does the work by its transaction alone, and may be run again. Call it again while it returns `limit`.
        """
        moment = self.now() if now is None else now
        names = [row["name"] for row in self._database.select(_Q.due, part=part, moment=moment, limit=limit)]
        fired = 0
        for name in names:
            with self._apart.item(f"schedule {part}/{name}"):
                fired += self._fire_one(part, name, fire, moment)
        return fired

    def _fire_one(
        self, part: str, name: str, fire: Callable[[Transaction, Firing], object], moment: int
    ) -> bool:
        claimed: list[Row] = []

        def work(tx: Transaction) -> bool:
            row = tx.one(_Q.claim, part=part, name=name, moment=moment)
            if row is None:
                return False  # another process has fired it, or is firing it
            claimed[:] = [row]
            due, following = _times(row, moment)
            tx.run(
                _Q.advance, part=part, name=name, due=following, fired=row["fired"] if due is None else due
            )
            if due is not None:
                fire(tx, Firing(part, name, due, decode(row["data"])))
            return due is not None

        try:
            return self._database.write(work)
        except STORE_TROUBLE:
            raise
        except Exception as error:
            if not claimed:
                raise
            self._put_off(claimed[0], error, moment)
            return False

    def _put_off(self, row: Row, error: Exception, moment: int) -> None:
        """Keep the firing for later; for good, if its expression cannot be read: only a new one helps that."""
        broken = isinstance(error, ScheduleError)
        failures = row["failures"] + 1
        look = None if broken else moment + round(_RETRY_MS.delay(failures))
        text = cut(f"{type(error).__name__}: {error}".replace("\0", "\ufffd"), 2000)
        _log.error(
            "schedule %s/%s failed: %s", row["part"], row["name"], text, exc_info=None if broken else error
        )
        values = {"part": row["part"], "name": row["name"], "due": row["due"], "look": look}
        self._database.execute(_Q.fail, failures=failures, error=text, **values)


def _times(row: Row, moment: int) -> tuple[int | None, int | None]:
    """Which time fires now, if any, and which is next."""
    cron, zone, catch_up = Cron.parse(row["cron"]), zone_named(row["zone"]), CatchUp(row["catch_up"])
    due: int = row["due"]
    following = _milliseconds(cron.next_after(_moment(due), zone))
    if catch_up is CatchUp.ALL:
        return due, following
    if following is not None and following <= moment:
        due = max(due, _milliseconds(cron.last_until(_moment(moment), zone)) or due)
        following = _milliseconds(cron.next_after(_moment(moment), zone))
    dropped = catch_up is CatchUp.NONE and moment - due > GRACE_MS
    return None if dropped else due, following


def _status(row: Row) -> ScheduleStatus:
    schedule = Schedule(
        part=row["part"],
        name=row["name"],
        cron=row["cron"],
        zone=row["zone"],
        catch_up=CatchUp(row["catch_up"]),
        data=decode(row["data"]),
        paused=bool(row["paused"]),
    )
    return ScheduleStatus(schedule, row["due"], row["fired"], row["failures"], row["error"])


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MILLISECOND
