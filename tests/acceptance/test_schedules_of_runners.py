"""A schedule that is due, and three runners that all look: one run for each time, however many see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.eventually import eventually
from support.warm_processes import WarmProcesses
from support.workshop import Workshop, opened

from afl.kernel.database import Transaction
from afl.kernel.schedule import CatchUp, Schedules, ScheduleStatus
from afl.language import compile_source
from afl.runtime.entities import RunnerState, ServerState
from afl.runtime.program.program import Program
from afl.runtime.schedules import PART, WorkflowSchedules
from afl.runtime.stores.sql_store import SqlStore

SOURCE = """namespace s {
    workflow Tick() => (m: Long) andThen { yield Tick(m = 7) }
}
"""
RUNNERS = 3
HOUR_MS = 3_600_000
HOURS = 24


@pytest.fixture(params=["sqlite", "postgres"])
def workshop(request: pytest.FixtureRequest, tmp_path: Path, warm: WarmProcesses) -> Iterator[Workshop]:
    url = f"sqlite:///{tmp_path / 'afl.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_database")
    with opened(tmp_path, url, warm, SOURCE) as workshop:
        yield workshop
        warm.end_all()


class Hourly:
    """A schedule that was due every hour since yesterday, and nobody was there."""

    def __init__(self, store: SqlStore, catch_up: CatchUp) -> None:
        self._database = store.database
        self._schedules = Schedules(store.database)
        program = Program({"program": compile_source(SOURCE).program, "workflow": "s.Tick"})
        WorkflowSchedules(store).put("tick", program, cron="0 0 29 2 *", catch_up=catch_up)
        self.put_at = self.now()
        self.first = store.database.write(self._set_back)

    def now(self) -> int:
        return self._schedules.now()

    def _set_back(self, tx: Transaction) -> int:
        (status,) = self._schedules.show(tx, PART)
        yesterday = self.put_at - HOURS * HOUR_MS
        due = self._schedules.put(tx, replace(status.schedule, cron="0 * * * *"), yesterday)
        assert due is not None
        return due

    def status(self) -> ScheduleStatus:
        (status,) = self._database.read(lambda tx: self._schedules.show(tx, PART))
        return status

    def caught_up(self) -> bool:
        due = self.status().due
        return due is not None and due > self.now()


def started(workshop: Workshop) -> SqlStore:
    """Three runners that look often; the store they share."""
    for number in range(RUNNERS):
        workshop.runner("--name", f"runner-{number}", AFL_POLL_INTERVAL_MS="20")
    store = workshop.store
    eventually(lambda: len(store.get_servers_by_state(ServerState.RUNNING)) == RUNNERS)
    assert isinstance(store, SqlStore)
    return store


def times(hourly: Hourly) -> int:
    """How many times have come, up to the next one."""
    due = hourly.status().due
    assert due is not None
    return (due - hourly.first) // HOUR_MS


def wait_runs(workshop: Workshop, hourly: Hourly) -> int:
    """How many runs there are when nothing is due and none is open any more."""
    eventually(hourly.caught_up)
    eventually(lambda: all(run.is_over for run in workshop.store.get_runs(limit=1000)))
    runs = workshop.store.get_runs(limit=1000)
    assert {(run.state, run.outputs["m"]) for run in runs} == {(RunnerState.COMPLETED, 7)}
    return len(runs)


def test_each_missed_time_starts_one_run(workshop: Workshop) -> None:
    hourly = Hourly(started(workshop), CatchUp.ALL)
    found = wait_runs(workshop, hourly)
    assert found == times(hourly) >= HOURS
    assert (hourly.status().failures, hourly.status().error) == (0, "")


def test_the_latest_of_the_missed_times_starts_one_run(workshop: Workshop) -> None:
    hourly = Hourly(started(workshop), CatchUp.LATEST)
    found = wait_runs(workshop, hourly)
    since = (
        hourly.now() // HOUR_MS - hourly.put_at // HOUR_MS
    )  # whole hours that ended in these very seconds: none
    assert 1 <= found <= 1 + since
