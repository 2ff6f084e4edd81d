"""Schedules of workflows on every store that keeps them: each time starts one run, whoever looks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime

import pytest

from afl.kernel.clock import wall_ms
from afl.kernel.errors import CapabilityError, InputError, ScheduleError
from afl.kernel.schedule import CatchUp
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.run import control, runs
from afl.operations.work import timetable
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.schedules import Overlap, WorkflowSchedules
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler import Handlers

SOURCE = """workflow Add(n: Long, m: Long = 1) => (sum: Long) andThen {
    yield Add(sum = $.n + $.m)
}
"""
HOUR = 3_600_000


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[PersistenceAPI]:
    opened = open_store(request.getfixturevalue(f"empty_{request.param}_url"))
    yield opened
    opened.close()


@pytest.fixture
def program() -> Program:
    return choose_workflow(compile_source(SOURCE, name="add.afl"))


def test_a_due_time_starts_one_run(store: PersistenceAPI, program: Program) -> None:
    tags = {"team": "data"}
    added = timetable.add(store, program, {"n": 2}, cron="@hourly", name="sums", task_list="night", tags=tags)
    assert (added.name, added.workflow, added.cron, added.inputs) == ("sums", "Add", "@hourly", {"n": 2})
    assert added.due is not None
    schedules = WorkflowSchedules(store)
    assert schedules.fire_due() == 0
    assert [schedules.fire_due(now=added.due), schedules.fire_due(now=added.due)] == [1, 0]
    (run,) = store.find_runs()
    assert (run.workflow_name, run.task_list, run.is_over) == ("Add", "night", False)
    assert (run.name, run.tags) == ("sums", tags)
    assert store.get_due_runs() == [run.workflow_id]
    assert runs.resume(store, run.workflow_id, handlers=Handlers()).outputs == {"sum": 3}
    (after,) = timetable.schedules(store)
    assert (after.fired, after.due) == (added.due, added.due + HOUR)


def test_however_many_look_each_time_starts_one_run(store: PersistenceAPI, program: Program) -> None:
    for number in range(5):
        timetable.add(store, program, {"n": number}, cron="@hourly", name=f"s{number}")
    due = timetable.schedules(store)[0].due
    ready = threading.Barrier(4)

    def look() -> None:
        schedules = WorkflowSchedules(store)
        ready.wait()
        schedules.fire_due(now=due)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    WorkflowSchedules(store).fire_due(now=due)
    inputs = [store.get_run(run.workflow_id).inputs["n"] for run in store.find_runs()]  # type: ignore[arg-type, union-attr]
    assert sorted(inputs) == [0, 1, 2, 3, 4]


def test_whoever_listens_for_runs_hears_of_it(store: PersistenceAPI, program: Program) -> None:
    due = timetable.add(store, program, {"n": 1}, cron="@hourly").due
    with store.subscribe(["runs"]) as subscription:
        WorkflowSchedules(store).fire_due(now=due)
        assert subscription.wait(60) == {"runs"}


def test_a_schedule_survives_the_pruning_of_its_program(store: PersistenceAPI, program: Program) -> None:
    added = timetable.add(store, program, {"n": 1}, cron="@hourly")
    assert added.due is not None
    for time in (added.due, added.due + HOUR):
        assert WorkflowSchedules(store).fire_due(now=time) == 1
        (run,) = store.find_runs()
        assert runs.resume(store, run.workflow_id, handlers=Handlers()).status == "COMPLETED"
        assert control.prune(store, -HOUR).runs == 1


def test_replacing_pausing_and_removing(store: PersistenceAPI, program: Program) -> None:
    timetable.add(store, program, {"n": 1}, cron="@hourly")
    timetable.add(store, program, {"n": 2}, cron="@daily", zone="Europe/Berlin")
    (only,) = timetable.schedules(store)
    assert (only.name, only.inputs, only.cron, only.zone) == ("Add", {"n": 2}, "@daily", "Europe/Berlin")
    assert timetable.pause(store, "Add").paused
    assert WorkflowSchedules(store).fire_due(now=wall_ms() + 48 * HOUR) == 0
    assert not timetable.pause(store, "Add", paused=False).paused
    assert timetable.remove(store, "Add").name == "Add"
    assert timetable.schedules(store) == []


def test_one_that_is_replaced_while_it_is_paused_stays_paused(
    store: PersistenceAPI, program: Program
) -> None:
    timetable.add(store, program, {"n": 1}, cron="@hourly")
    timetable.pause(store, "Add")
    again = timetable.add(store, program, {"n": 2}, cron="@daily")
    assert (again.paused, again.cron, again.inputs) == (True, "@daily", {"n": 2})
    assert WorkflowSchedules(store).fire_due(now=wall_ms() + 48 * HOUR) == 0


def test_all_missed_times_are_made_up_for_at_once(store: PersistenceAPI, program: Program) -> None:
    due = timetable.add(store, program, {"n": 1}, cron="@hourly", catch_up=CatchUp.ALL).due
    assert due is not None
    assert WorkflowSchedules(store).fire_due(now=due + 29 * HOUR) == 30
    assert len(store.find_runs()) == 30


def test_a_time_at_which_an_earlier_run_is_open_can_be_skipped(
    store: PersistenceAPI, program: Program
) -> None:
    due = timetable.add(store, program, {"n": 1}, cron="@hourly", overlap=Overlap.SKIP).due
    timetable.add(store, program, {"n": 2}, cron="@hourly", name="both")
    assert due is not None
    schedules = WorkflowSchedules(store)

    def started(at: int) -> list[str]:
        before = {run.workflow_id for run in store.find_runs()}
        schedules.fire_due(now=at)
        return sorted(run.name for run in store.find_runs() if run.workflow_id not in before)

    assert [started(due), started(due + HOUR)] == [["Add", "both"], ["both"]]
    (first,) = (run.workflow_id for run in store.find_runs() if run.name == "Add")
    control.pause(store, first)
    assert started(due + 2 * HOUR) == ["both"]
    control.cancel(store, first)
    assert started(due + 3 * HOUR) == ["Add", "both"]


def test_a_run_gets_the_time_that_it_is_for(store: PersistenceAPI) -> None:
    source = "workflow Report(day: String) => (day: String) andThen { yield Report(day = $.day) }"
    report = choose_workflow(compile_source(source))
    options = {"cron": "0 6 * * *", "zone": "Europe/Berlin", "time_input": "day"}
    due = timetable.add(store, report, catch_up=CatchUp.ALL, **options).due  # type: ignore[arg-type]
    assert due is not None
    assert WorkflowSchedules(store).fire_due(now=due + 108 * HOUR) == 5
    days = sorted(store.get_run(run.workflow_id).inputs["day"] for run in store.find_runs())  # type: ignore[arg-type, union-attr]
    assert datetime.fromisoformat(days[0]).timestamp() * 1000 == due
    assert len(set(days)) == 5
    assert {day[10:] for day in days} <= {"T06:00:00+01:00", "T06:00:00+02:00"}


def test_what_cannot_be(store: PersistenceAPI, program: Program) -> None:
    with pytest.raises(InputError, match="input 'n' is missing"):
        timetable.add(store, program, cron="@hourly")
    with pytest.raises(ScheduleError):
        timetable.add(store, program, {"n": 1}, cron="every day")
    with pytest.raises(ScheduleError):
        timetable.add(store, program, {"n": 1}, cron="@daily", zone="Mars")
    with pytest.raises(ScheduleError, match="the catch-up is 'some'; expected none, latest, all"):
        WorkflowSchedules(store).put("x", program, {"n": 1}, cron="@daily", catch_up="some")
    with pytest.raises(ScheduleError, match="the overlap is 'queue'; expected allow, skip"):
        WorkflowSchedules(store).put("x", program, {"n": 1}, cron="@daily", overlap="queue")
    with pytest.raises(InputError, match="input 'n': expected Long, got String"):
        timetable.add(store, program, cron="@daily", time_input="n")
    with pytest.raises(InputError, match="unknown input 'day'"):
        timetable.add(store, program, {"n": 1}, cron="@daily", time_input="day")
    with pytest.raises(ScheduleError, match="input 'n' is the time of the run"):
        timetable.add(store, program, {"n": 1}, cron="@daily", time_input="n")
    with pytest.raises(InputError, match="the run's name"):
        timetable.add(store, program, {"n": 1}, cron="@daily", name="n\n")
    with pytest.raises(InputError, match="there is no schedule 'x'; there is none at all"):
        timetable.remove(store, "x")
    timetable.add(store, program, {"n": 1}, cron="@daily")
    with pytest.raises(InputError, match="there is no schedule 'x'; there are Add"):
        timetable.pause(store, "x")


def test_a_store_without_schedules_says_so(mongo_database_url: str, program: Program) -> None:
    store = open_store(mongo_database_url)
    assert WorkflowSchedules.of(store) is None
    with pytest.raises(CapabilityError, match="keeps no schedules; use SQLite or PostgreSQL"):
        timetable.add(store, program, {"n": 1}, cron="@daily")
    store.close()
