"""Schedules: workflows that are started by the clock.

A schedule keeps the compiled program, the inputs and the task list of its runs. Firing stores the run in the very
transaction that moves the schedule on, so each time starts one run, however many servers look. SQL stores keep
schedules; the others do not have the capability.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from afl.kernel import codec
from afl.kernel.cron import zone_named
from afl.kernel.database import Transaction
from afl.kernel.database.migration import is_made
from afl.kernel.errors import CapabilityError, ScheduleError
from afl.kernel.notify import Notifications
from afl.kernel.schedule import SCHEMA, CatchUp, Firing, Schedule, Schedules, ScheduleStatus
from afl.runtime.entities import RunDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.stores.sql_store.tables import Q

PART = "runtime"
CAPABILITY = "schedules"
_log = logging.getLogger(__name__)
_BATCH = 100
_MOST = 1_000
_Choice = TypeVar("_Choice", bound=StrEnum)


class Overlap(StrEnum):
    """What happens when a schedule is due and an earlier run of it is open."""

    ALLOW = "allow"  # it starts one more
    SKIP = "skip"  # it starts none at this time


@dataclass(frozen=True)
class WorkflowSchedule:
    """A schedule and where it stands. Times are milliseconds since the epoch; None: never."""

    name: str
    workflow: str
    cron: str
    zone: str
    catch_up: str
    inputs: dict[str, Any]
    task_list: str
    paused: bool
    due: int | None
    fired: int | None
    failures: int
    error: str
    tags: dict[str, str] = field(default_factory=dict)
    overlap: str = Overlap.ALLOW
    time_input: str = ""


class WorkflowSchedules:
    """The schedules of a store. CapabilityError if the store keeps none."""

    def __init__(self, store: PersistenceAPI) -> None:
        if CAPABILITY not in store.capabilities or not isinstance(store, SqlStore):
            raise CapabilityError("this store keeps no schedules; use SQLite or PostgreSQL")
        self._store = store
        self._schedules = Schedules(store.database)
        self._evaluator = Evaluator(store)

    @classmethod
    def of(cls, store: PersistenceAPI) -> WorkflowSchedules | None:
        """The schedules of a store; None if it keeps none."""
        return cls(store) if CAPABILITY in store.capabilities else None

    def put(
        self,
        name: str,
        program: Program,
        inputs: Mapping[str, Any] | None = None,
        *,
        cron: str,
        zone: str = "UTC",
        catch_up: str = CatchUp.LATEST,
        overlap: str = Overlap.ALLOW,
        time_input: str = "",
        task_list: str = "default",
        tags: Mapping[str, str] | None = None,
    ) -> int | None:
        """Add a schedule or replace the one of that name, which stays paused if it is; when it is next due.

        Its runs have the time that they are for as the input `time_input`. InputError for what does not fit.
        """
        now = self._schedules.now()
        if time_input in (inputs or {}):
            raise ScheduleError(f"input {time_input!r} is the time of the run; give it no other value")
        data = {
            "program": program.text,
            "workflow": program.workflow.name,
            "inputs": dict(inputs or {}),
            "task_list": task_list,
            "tags": dict(tags or {}),
            "overlap": _chosen(Overlap, overlap, "the overlap"),
            "time_input": time_input,
            "zone": zone,
        }
        self._new_run(program, Firing(PART, name, now, data))  # what could not start is refused now
        schedule = Schedule(PART, name, cron, zone, _chosen(CatchUp, catch_up, "the catch-up"), data)

        def put(tx: Transaction) -> int | None:
            known = self._known(tx, name)
            paused = known is not None and known.paused
            return self._schedules.put(tx, replace(schedule, paused=paused), now)

        return self._store.database.write(put)

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        return self._store.database.write(lambda tx: self._schedules.remove(tx, PART, name))

    def pause(self, name: str, *, paused: bool) -> bool:
        """Stop a schedule from firing, or let it fire again from now on; False if there is none of that name."""
        now = self._schedules.now()

        def change(tx: Transaction) -> bool:
            known = self._known(tx, name)
            if known is not None:
                self._schedules.put(tx, replace(known, paused=paused), now)
            return known is not None

        return self._store.database.write(change)

    def _known(self, tx: Transaction, name: str) -> Schedule | None:
        every = self._schedules.show(tx, PART)
        return next((each.schedule for each in every if each.schedule.name == name), None)

    def all(self) -> list[WorkflowSchedule]:
        """Every schedule, by name."""
        found = self._store.database.read(lambda tx: self._schedules.show(tx, PART))
        return [_shown(status) for status in found]

    def fire_due(self, *, now: int | None = None) -> int:
        """Start the runs that are due; how many. Any number of processes may do so at once.

        After thousands of missed times it returns in between: other work must not wait for all of them.
        """
        fired = 0
        while fired < _MOST and (started := self._fire_batch(now)):
            fired += started
        return fired

    def _fire_batch(self, now: int | None) -> int:
        with self._store.notifier.batch() as notifications:

            def start(tx: Transaction, firing: Firing) -> None:
                self._start(tx, notifications, firing)

            return self._schedules.fire_due(PART, start, now=now, limit=_BATCH)

    def _start(self, tx: Transaction, notifications: Notifications, firing: Firing) -> None:
        """Store the run of one firing, and its program again: prune may have removed that."""
        program = Program(codec.decode(firing.data["program"]))
        run = self._new_run(program, firing)
        if firing.data.get("overlap") == Overlap.SKIP:
            open_run = tx.one(Q.get_open_run_called, name=run.name, workflow_name=run.workflow_name)
            if open_run is not None:
                _log.info("schedule %s starts no run: %s is open", firing.name, open_run["workflow_id"])
                return
        tx.run(Q.save_program, hash=program.hash, compiled=program.text)
        self._store.insert_run_in(tx, notifications, run)

    def _new_run(self, program: Program, firing: Firing) -> RunDefinition:
        data = firing.data
        inputs = dict(data["inputs"])
        if data.get("time_input"):
            time = datetime.fromtimestamp(firing.due // 1000, zone_named(data["zone"]))
            inputs[data["time_input"]] = time.isoformat()
        return self._evaluator.new_run(
            program, inputs, task_list=data["task_list"], name=firing.name, tags=data.get("tags")
        )


def list_schedules(store: PersistenceAPI) -> list[WorkflowSchedule]:
    """Every schedule, by name; whoever only looks makes no tables for them."""
    if isinstance(store, SqlStore) and not is_made(store.database, SCHEMA):
        return []
    return WorkflowSchedules(store).all()


def _chosen(kind: type[_Choice], value: str, what: str) -> _Choice:
    """The member of that value; ScheduleError says which there are."""
    try:
        return kind(value)
    except ValueError:
        raise ScheduleError(f"{what} is {value!r}; expected {', '.join(kind)}") from None


def _shown(status: ScheduleStatus) -> WorkflowSchedule:
    schedule, data = status.schedule, status.schedule.data
    return WorkflowSchedule(
        name=schedule.name,
        workflow=data["workflow"],
        cron=schedule.cron,
        zone=schedule.zone,
        catch_up=schedule.catch_up.value,
        inputs=data["inputs"],
        task_list=data["task_list"],
        tags=data.get("tags") or {},
        overlap=data.get("overlap", Overlap.ALLOW),
        time_input=data.get("time_input", ""),
        paused=schedule.paused,
        due=status.due,
        fired=status.fired,
        failures=status.failures,
        error=status.error,
    )
