"""Timers on every store: they hold no worker, fire when the store's clock says so, once, and survive everything."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from store_records import LONG, OpenStore, eventually

from afl.language import compile_source
from afl.runtime.entities import RunnerState, TaskHold, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.recovery.sweep import continue_lost_steps, fire_timers
from afl.runtime.types import WorkflowId

PROGRAM: dict[str, Any] = compile_source("""
workflow Nap(ms: Long) => (n: Int) andThen {
    started = sys.Publish(name = "state", value = "sleeping")
    pause = sys.Sleep(ms = $.ms)
    done = sys.Publish(name = "state", value = #{awake: true}) with After(pause)
    yield Nap(n = 1)
}
workflow At(time: String) => (n: Int) andThen {
    until = sys.Until($.time)
    yield At(n = until.time == "" ? 0 : 2)
}
workflow Named(key: String) andThen { p = sys.Publish(name = $.key, value = 1) }
""").program


def start(store: PersistenceAPI, name: str, **inputs: Any) -> ExecutionResult:
    (node,) = [each for each in PROGRAM["workflows"] if each["name"] == name]
    return Evaluator(store).execute(node, inputs, PROGRAM)


def sleeping(store: PersistenceAPI) -> list[str]:
    return [task.name for task in store.find_tasks(TaskFilter(hold=TaskHold.TIMER, state=TaskState.PENDING))]


def wake(store: PersistenceAPI, started: ExecutionResult) -> ExecutionResult:
    """Fire what is due, again and again, until the run is over."""
    evaluator = Evaluator(store)

    def over() -> bool:
        fire_timers(evaluator)
        return evaluator.resume(started.workflow_id).status != ExecutionStatus.PAUSED

    eventually(over)
    return evaluator.resume(started.workflow_id)


def values(store: PersistenceAPI, run: WorkflowId) -> dict[str, Any]:
    return {each.name: each.value for each in store.get_published(run)}


def test_a_sleep_ends_by_the_clock_of_the_store(store: PersistenceAPI) -> None:
    started = start(store, "Nap", ms=30)
    assert started.status == ExecutionStatus.PAUSED
    assert values(store, started.workflow_id) == {"state": "sleeping"}
    ended = wake(store, started)
    assert (ended.status, ended.outputs) == (ExecutionStatus.COMPLETED, {"n": 1})
    assert values(store, started.workflow_id) == {"state": {"awake": True}}


def test_a_long_sleep_waits_and_says_how_long(store: PersistenceAPI) -> None:
    started = start(store, "Nap", ms=LONG)
    wait = fire_timers(Evaluator(store))
    assert wait is not None
    assert 0 < wait <= LONG
    assert store.due_timers() == []
    assert Evaluator(store).resume(started.workflow_id).status == ExecutionStatus.PAUSED
    assert store.claim_tasks(["sys.Sleep"], limit=1, any_event=True) == []


def test_without_timers_there_is_nothing_to_wait_for(store: PersistenceAPI) -> None:
    assert store.next_timer() is None
    assert fire_timers(Evaluator(store)) is None


@pytest.mark.parametrize("time", ["2020-02-29T12:00:00Z", "1969-12-31T23:00:00-02:00"])
def test_a_time_that_has_passed_ends_the_step_at_once(store: PersistenceAPI, time: str) -> None:
    ended = wake(store, start(store, "At", time=time))
    assert (ended.status, ended.outputs) == (ExecutionStatus.COMPLETED, {"n": 2})


def test_a_time_in_the_future_is_kept_exactly(store: PersistenceAPI) -> None:
    start(store, "At", time="2126-03-01T00:00:00.500+01:00")
    (task,) = store.find_tasks(TaskFilter(hold=TaskHold.TIMER, state=TaskState.PENDING))
    assert task.deadline == datetime(2126, 2, 28, 23, 0, tzinfo=UTC).timestamp() * 1000 + 500


@pytest.mark.parametrize(
    ("name", "inputs", "error", "text"),
    [
        ("Nap", {"ms": -1}, "BadTimer", "ms is -1; expected a whole number from 0"),
        ("Nap", {"ms": 10**15}, "BadTimer", "100 years"),
        ("At", {"time": "2027-01-01T00:00:00"}, "BadTimer", "has no zone"),
        ("At", {"time": "soon"}, "BadTimer", "'soon' is not a time"),
        ("Named", {"key": " "}, "BadName", "expected 1 to 200 characters"),
        ("Named", {"key": "n" * 201}, "BadName", "expected 1 to 200 characters"),
        ("Named", {"key": "a\nb"}, "BadName", "no control characters among them"),
    ],
)
def test_a_bad_value_fails_the_step_and_leaves_no_task(
    store: PersistenceAPI, name: str, inputs: dict[str, Any], error: str, text: str
) -> None:
    ended = start(store, name, **inputs)
    assert isinstance(ended.error, StepFailure)
    assert ended.error.error_type == error
    assert text in ended.error.message
    assert store.get_tasks_by_workflow(ended.workflow_id) == []


def test_canceling_a_run_cancels_its_timers(store: PersistenceAPI) -> None:
    started = start(store, "Nap", ms=0)
    assert store.cancel_run(started.workflow_id, "enough")
    assert sleeping(store) == []
    assert fire_timers(Evaluator(store)) is None
    (task,) = store.get_tasks_by_workflow(started.workflow_id)
    assert task.state == TaskState.CANCELED


def test_a_paused_run_goes_on_after_its_timer_when_it_is_unpaused(store: PersistenceAPI) -> None:
    started = start(store, "Nap", ms=0)
    assert store.pause_run(started.workflow_id, "lunch")
    eventually(lambda: fire_timers(Evaluator(store)) is None and sleeping(store) == [])
    run = store.get_run(started.workflow_id)
    assert run is not None
    assert run.state == RunnerState.PAUSED
    assert store.unpause_run(started.workflow_id)
    assert wake(store, started).outputs == {"n": 1}


def test_timers_fire_in_the_order_of_their_times(store: PersistenceAPI) -> None:
    late, early = (start(store, "At", time=f"20{year}-01-01T00:00:00Z") for year in (21, 20))
    assert [task.workflow_id for task in store.due_timers()] == [early.workflow_id, late.workflow_id]
    assert [task.workflow_id for task in store.due_timers(1)] == [early.workflow_id]


def test_of_two_that_fire_a_timer_one_has_an_effect(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    started = start(one, "At", time="2020-01-01T00:00:00Z")
    assert fire_timers(Evaluator(one)) is None
    assert fire_timers(Evaluator(other)) is None
    assert len(one.get_marks(started.workflow_id)) == 1
    assert wake(other, started).outputs == {"n": 2}


def test_a_timer_whose_task_was_lost_is_set_again(store: PersistenceAPI) -> None:
    started = start(store, "Nap", ms=0)
    (task,) = store.get_tasks_by_workflow(started.workflow_id)
    store.close_tasks([replace(task, state=TaskState.IGNORED)])
    assert continue_lost_steps(Evaluator(store)) == 1
    assert wake(store, started).outputs == {"n": 1}


def test_published_values_go_with_their_run(store: PersistenceAPI) -> None:
    started = start(store, "Nap", ms=0)
    wake(store, started)
    assert store.delete_runs(2**53, 10) == 1
    assert store.get_published(started.workflow_id) == []
