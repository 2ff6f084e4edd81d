"""Runs that ended long ago are removed with all that belongs to them, a few at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from store_records import (
    NOTHING,
    RUN,
    Everything,
    OpenStore,
    a_log,
    a_mark,
    a_runner,
    a_step,
    a_task,
    an_event,
    begin,
    of_stores,
    stored_run,
)

from afl.runtime.entities import RunnerState, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI

pytestmark = of_stores(offers="retention")
OVER = {"owner": "", "state": RunnerState.COMPLETED}
ENDED = {TaskState.COMPLETED, TaskState.FAILED, TaskState.IGNORED, TaskState.CANCELED}


def fill(store: PersistenceAPI, workflow_id: str, ended: int, runner_id: str = "") -> None:
    begin(store, workflow_id, ended=ended, runner_id=runner_id, inputs={"n": 1}, **OVER)
    store.save_step(a_step(f"{workflow_id}-step", workflow_id))
    store.save_event(an_event(f"{workflow_id}-event", workflow_id))
    store.save_event(a_mark(f"{workflow_id}-mark", workflow_id))
    store.save_task(a_task(f"{workflow_id}-task", workflow_id=workflow_id, state=TaskState.COMPLETED))
    store.save_log(a_log(f"{workflow_id}-log", runner_id=workflow_id))


def test_a_run_goes_with_all_that_belongs_to_it(store: PersistenceAPI) -> None:
    store.save_runner(a_runner(state=RunnerState.COMPLETED))
    fill(store, RUN, 100, runner_id="r")
    fill(store, "other", 300)
    others = Everything.of(store, "other")
    assert store.delete_runs(200, 10) == 1
    assert Everything.of(store) == NOTHING
    assert store.get_logs_by_runner(RUN) == []
    assert store.get_logs_after(RUN, 0) == []
    left = Everything.of(store, "other")
    assert (left.run, left.steps, left.events, left.tasks) == (
        others.run,
        others.steps,
        others.events,
        others.tasks,
    )
    assert [log.uuid for log in store.get_logs_by_runner("other")] == ["other-log"]
    assert store.delete_runs(200, 10) == 0


def test_a_task_that_comes_after_a_removed_one_is_news(store: PersistenceAPI) -> None:
    fill(store, RUN, 100)
    before = store.tasks_pulse()
    assert store.delete_runs(200, 10) == 1
    store.save_task(a_task("another", workflow_id="other", state=TaskState.COMPLETED))
    assert store.tasks_pulse() != before


def test_the_oldest_go_first_a_few_at_a_time(store: PersistenceAPI) -> None:
    for number, ended in enumerate([10, 20, 30, 40, 50]):
        begin(store, f"run-{number}", ended=ended, **OVER)
    assert store.delete_runs(45, 0) == 0
    assert store.delete_runs(45, 3) == 3
    assert sorted(run.workflow_id for run in store.get_runs()) == ["run-3", "run-4"]
    assert store.delete_runs(45, 3) == 1
    assert [run.workflow_id for run in store.get_runs()] == ["run-4"]


def test_a_run_that_is_not_over_stays(store: PersistenceAPI) -> None:
    begin(store, "running")
    begin(store, "waiting", owner="", settled=True)
    begin(store, "paused", owner="", state=RunnerState.PAUSED)
    assert store.delete_runs(2**60, 10) == 0
    assert len(store.get_runs()) == 3


def test_a_canceled_run_goes_too(store: PersistenceAPI) -> None:
    begin(store)
    assert store.cancel_run(RUN, "enough")
    ended = stored_run(store).ended
    assert store.delete_runs(ended, 10) == 0
    assert store.delete_runs(ended + 1, 10) == 1
    assert store.get_runs() == []


def test_the_program_of_a_run_that_stays_stays(store: PersistenceAPI) -> None:
    store.save_program("hash", "{}")
    begin(store, "old", ended=10, **OVER)
    begin(store, "new")
    assert store.delete_runs(20, 10) == 1
    assert store.get_program("hash") == "{}"


def test_several_at_once_remove_each_run_once(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(3)]
    for number in range(30):
        begin(stores[0], f"run-{number:02}", ended=number + 1, **OVER)
    together = threading.Barrier(len(stores))

    def prune(store: PersistenceAPI) -> int:
        together.wait()
        removed = 0
        while found := store.delete_runs(100, 4):
            removed += found
        return removed

    with ThreadPoolExecutor(len(stores)) as pool:
        removed = sum(pool.map(prune, stores))
    assert removed == 30
    assert stores[0].get_runs() == []


def loose(
    store: PersistenceAPI, uuid: str, updated: int, state: str = TaskState.COMPLETED, **fields: str
) -> None:
    """A task of no run."""
    store.save_task(a_task(uuid, **{"workflow_id": "", **fields}, state=state, updated=updated))


def test_tasks_of_no_run_go_when_they_are_old(store: PersistenceAPI) -> None:
    for place, state in enumerate(sorted(ENDED)):
        loose(store, f"old-{state}", 100 + place, state)
    loose(store, "new", 200)
    loose(store, "open", 100, TaskState.PENDING)
    loose(store, "of a step", 100, workflow_id=RUN, step_id="step")
    assert store.count_old_tasks(200) == len(ENDED)
    assert store.delete_tasks(200, 100) == len(ENDED)
    assert sorted(task.uuid for task in store.get_all_tasks()) == ["new", "of a step", "open"]
    assert store.count_old_tasks(200) == store.delete_tasks(200, 100) == 0


def test_old_tasks_go_a_few_at_a_time_the_oldest_first(store: PersistenceAPI) -> None:
    for place in (3, 1, 2):
        loose(store, f"t{place}", 100 + place)
    assert store.delete_tasks(200, 0) == 0
    assert store.delete_tasks(200, 2) == 2
    assert [task.uuid for task in store.get_all_tasks()] == ["t3"]
    assert store.delete_tasks(200, 2) == 1
    assert store.get_all_tasks() == []


def test_what_was_logged_for_no_run_goes_with_its_time(store: PersistenceAPI) -> None:
    store.save_log(a_log("of a run", runner_id=RUN, time=100))
    for place in range(5):
        store.save_log(a_log(f"l{place}", runner_id="", time=100 + place))
    assert store.delete_logs(103, 0) == 0
    assert store.delete_logs(103, 2) == 2
    assert [log.uuid for log in store.get_logs_by_runner("")] == ["l2", "l3", "l4"]
    assert [store.delete_logs(103, 2), store.delete_logs(103, 2)] == [1, 0]
    assert [log.uuid for log in store.get_logs_by_runner("")] == ["l3", "l4"]
    assert len(store.get_logs_by_runner(RUN)) == 1


def test_a_task_whose_end_is_not_known_to_be_old_stays(store: PersistenceAPI) -> None:
    loose(store, "when it ended nobody wrote down", 0)
    store.save_task(
        replace(
            a_task("somebody is to be told", workflow_id="", state=TaskState.CANCELED, updated=100),
            hold=TaskHold.ELSEWHERE,
            via="agent:x",
        )
    )
    assert store.count_old_tasks(200) == store.delete_tasks(200, 10) == 0
    assert len(store.get_all_tasks()) == 2
