"""Cheap looks: a pulse stays while nothing happens, and differs when something did. Lists of steps without values."""

from __future__ import annotations

import pytest
from store_records import RUN, a_log, a_run, a_step, a_task, a_waiting_step

from afl.runtime.entities import RunDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.inspection import TaskLine
from afl.runtime.states import StepState
from afl.runtime.step import StepLine
from afl.runtime.types import ObjectType, StepId, WorkflowId


def test_a_run_that_is_not_there_has_no_pulse(store: PersistenceAPI) -> None:
    assert store.run_pulse(WorkflowId("nothing")) is None


def test_the_pulse_of_a_run_follows_its_tasks_and_its_log(store: PersistenceAPI) -> None:
    store.insert_run(a_run())
    seen = [store.run_pulse(RUN), store.run_pulse(RUN)]
    assert seen[0] == seen[1] is not None
    store.save_task(a_task("t1", step_id="s1"))
    seen.append(store.run_pulse(RUN))
    store.claim_task(["ns.F"])
    seen.append(store.run_pulse(RUN))
    store.save_log(a_log(runner_id=RUN))
    seen.append(store.run_pulse(RUN))
    store.cancel_run(RUN, "enough")
    seen.append(store.run_pulse(RUN))
    assert len({repr(each) for each in seen}) == len(seen) - 1


def test_what_happens_to_one_run_is_no_news_of_another(store: PersistenceAPI) -> None:
    store.insert_run(a_run())
    store.insert_run(a_run("run-2"))
    before = store.run_pulse(RUN)
    store.save_task(a_task("t1", workflow_id="run-2"))
    store.save_log(a_log(runner_id="run-2"))
    assert store.run_pulse(RUN) == before


def test_the_pulse_of_all_runs_follows_new_ones_and_ended_ones(store: PersistenceAPI) -> None:
    seen = [store.runs_pulse()]
    store.insert_run(a_run())
    seen.append(store.runs_pulse())
    assert store.runs_pulse() == seen[-1]
    store.pause_run(RUN, "wait")
    seen.append(store.runs_pulse())
    store.cancel_run(RUN, "enough")
    seen.append(store.runs_pulse())
    assert len({repr(each) for each in seen}) == 4


def test_the_pulse_of_the_queue_follows_what_comes_and_goes(store: PersistenceAPI) -> None:
    seen = [store.tasks_pulse()]
    store.save_task(a_task("t1"))
    seen.append(store.tasks_pulse())
    assert store.tasks_pulse() == seen[-1]
    store.claim_task(["ns.F"])
    seen.append(store.tasks_pulse())
    task = store.get_task("t1")
    assert task is not None
    task.state = TaskState.COMPLETED
    assert store.close_tasks([task]) == [True]
    seen.append(store.tasks_pulse())
    assert len({repr(each) for each in seen}) == 4


def test_the_end_of_a_log_grows_with_it(store: PersistenceAPI) -> None:
    assert store.log_end(RUN) == 0
    store.save_log(a_log("l1", runner_id=RUN))
    first = store.log_end(RUN)
    store.save_log(a_log("l2", runner_id="another"))
    assert store.log_end(RUN) == first > 0
    store.save_log(a_log("l3", runner_id=RUN))
    assert store.log_end(RUN) > first
    assert [position for position, _ in store.get_logs_after(RUN, 0)][-1] == store.log_end(RUN)


def test_open_runs_are_counted(store: PersistenceAPI) -> None:
    for number, state in enumerate(["running", "created", "completed", "paused", "failed"]):
        store.insert_run(a_run(f"run-{number}", state=state))
    assert store.count_open_runs() == 2


def test_steps_come_without_their_values_oldest_first(store: PersistenceAPI) -> None:
    store.save_step(
        a_step(f"{RUN}/0/b", started=5, ended=9, state=StepState.STATEMENT_COMPLETE, facet_name="ns.F")
    )
    store.save_step(a_step(f"{RUN}/0", started=2, object_type=ObjectType.AND_THEN))
    store.save_step(a_step("other/0/x", workflow_id="other"))
    assert store.get_step_lines(RUN) == [
        StepLine(StepId(f"{RUN}/0"), ObjectType.AND_THEN, StepState.CREATED, "", 2, 0),
        StepLine(
            StepId(f"{RUN}/0/b"), ObjectType.VARIABLE_ASSIGNMENT, StepState.STATEMENT_COMPLETE, "ns.F", 5, 9
        ),
    ]


def test_the_steps_below_one(store: PersistenceAPI) -> None:
    for number, path in enumerate(["0", "0/a", "0/a/0", "0/a/0/x", "0/a0", "0/a-b/0", "0/b/0"]):
        store.save_step(a_step(f"{RUN}/{path}", started=10 - number))
    store.save_step(a_step("other/0/a/0", workflow_id="other"))
    assert [line.id for line in store.get_step_lines(RUN, StepId(f"{RUN}/0/a"))] == [
        f"{RUN}/0/a/0/x",
        f"{RUN}/0/a/0",
    ]


def test_steps_that_are_worked_on_are_known(store: PersistenceAPI) -> None:
    for name in ("a", "b"):
        store.save_step(a_waiting_step(name))
        store.save_task(a_task(f"t-{name}", step_id=name))
    claimed = store.claim_task(["ns.F"])
    assert claimed is not None
    assert store.get_running_steps(RUN) == {claimed.step_id}


def test_tasks_come_without_their_data_in_the_order_in_which_they_were_made(store: PersistenceAPI) -> None:
    for name in ("b", "a"):
        store.save_step(a_waiting_step(name))
        store.save_task(a_task(f"t-{name}", step_id=name, created=3, updated=4))
    store.save_task(a_task("elsewhere", step_id="b", workflow_id="other"))
    store.save_task(a_task("of no step", step_id=""))
    assert store.claim_task(["ns.F"]) is not None
    first, second = store.get_task_lines(RUN)
    assert (first.uuid, first.step_id, first.state, first.deliveries) == ("t-b", "b", TaskState.RUNNING, 1)
    assert first.owner == store.owner_id
    assert second == TaskLine("t-a", StepId("a"), TaskState.PENDING, "", "", "", 0, 0, 3, 0, 4)


def test_all_tasks_of_a_step_come_in_the_order_in_which_they_were_made(store: PersistenceAPI) -> None:
    for number in range(3):
        store.save_task(a_task(f"t{number}", step_id="s" if number != 1 else "other", state=TaskState.FAILED))
    assert [task.uuid for task in store.get_tasks_by_step(StepId("s"))] == ["t0", "t2"]


def _sought(store: PersistenceAPI) -> None:
    runs = [
        RunDefinition("a1", "shop.Order", "h", created=100),
        RunDefinition("a2", "shop.Order", "h", created=200, error={"message": "the CARD was declined 50%"}),
        RunDefinition("b3", "news.Page", "h", created=300, reason="canceled by operator ada_1"),
    ]
    for run in runs:
        store.insert_run(run)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["b3", "a2", "a1"]),
        ("A2", ["a2"]),
        ("order", ["a2", "a1"]),
        ("card WAS", ["a2"]),
        ("ada_", ["b3"]),
        ("50%", ["a2"]),
        ("%", ["a2"]),
        ("_", ["b3"]),
        ("adaX1", []),
        ("(", []),
        ("'", []),
    ],
)
def test_runs_are_found_by_a_text(store: PersistenceAPI, text: str, found: list[str]) -> None:
    _sought(store)
    assert [run.workflow_id for run in store.find_runs(RunFilter(text=text))] == found


def test_runs_are_found_by_when_they_were_created(store: PersistenceAPI) -> None:
    _sought(store)
    assert [run.workflow_id for run in store.find_runs(RunFilter(since=200))] == ["b3", "a2"]
    assert [run.workflow_id for run in store.find_runs(RunFilter(until=200))] == ["a1"]
    assert [run.workflow_id for run in store.find_runs(RunFilter(since=101, until=300))] == ["a2"]
    assert [run.workflow_id for run in store.find_runs(RunFilter(since=101, text="shop", before="a2"))] == []
