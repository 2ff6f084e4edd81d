"""`commit_all`: commits of several runs, stored together. Each run finds what a commit of its own would have stored."""

from __future__ import annotations

import random
from typing import Any

import pytest
from store_records import (
    LONG,
    a_log,
    a_mark,
    a_run,
    a_runner,
    a_step,
    a_task,
    a_waiting_step,
    an_event,
    begin,
    stored_run,
)

from afl.kernel.errors import FencedError, PayloadError
from afl.runtime.entities import RunDefinition, RunnerState, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges, PublishedValue
from afl.runtime.persistence.history import HistoryEvent, HistoryKind
from afl.runtime.persistence.runs import RunFilter
from afl.runtime.states import EventState, StepState
from afl.runtime.types import EventId, StepId, WorkflowId

NAMES = ("a", "b", "c")


def random_text(length: int) -> str:
    """One that does not become shorter by compression."""
    return random.Random(1).randbytes(length // 2).hex()


CHILDREN = {"a": ("a-child",), "b": (), "c": ("c-child", "c-other")}


def begin_one(store: PersistenceAPI, name: str) -> RunDefinition:
    """A held run with a step, a mark, an event, a task that this process has, and what is to be removed."""
    run = begin(store, name, runner_id=f"{name}-runner", tags={"team": name, "kept": "yes"})
    store.save_runner(a_runner(f"{name}-runner", start_time=100))
    store.save_step(a_step(f"{name}/old", workflow_id=name))
    store.save_step(a_step(f"{name}/gone", workflow_id=name))
    store.save_step(a_step(f"{name}/gone/below", workflow_id=name))
    store.save_event(an_event(f"{name}-event", workflow_id=name))
    store.save_event(a_mark(f"{name}-mark", workflow_id=name))
    store.save_task(a_task(f"{name}-task", workflow_id=name, step_id=f"{name}/old"))
    return run


def changes_of(store: PersistenceAPI, run: RunDefinition, number: int) -> IterationChanges:
    """Something of every kind; `number` is what the values of this run are made of."""
    name = run.workflow_id
    run.state, run.ended, run.owner, run.settled = RunnerState.COMPLETED, 1_000 + number, "", True
    run.outputs, run.iterations = {"n": number}, number
    run.tags = {**run.tags, "team": f"new-{name}", "added": str(number)}
    (held,) = store.claim_tasks(["ns.F"], limit=1, lease_ms=LONG, workflow_id=WorkflowId(name))
    held.state, held.result, held.updated = TaskState.COMPLETED, {"m": number}, 5
    changes = IterationChanges(run=run, tags={"team": f"new-{name}", "added": str(number)})
    changes.add_created_step(a_waiting_step(f"{name}/new", workflow_id=name, n=number))
    changes.add_updated_step(a_step(f"{name}/old", workflow_id=name, state=StepState.STATEMENT_COMPLETE))
    changes.updated_tasks.append(held)
    changes.add_created_task(
        a_task(f"{name}-new", workflow_id=name, step_id=f"{name}/new", data={"n": number})
    )
    changes.add_created_task(a_task(f"{name}-timed", workflow_id=name, timeout_ms=number + 1))
    changes.add_created_task(a_task(f"{name}-far", workflow_id=name, via="human:x", bridge={"n": number}))
    changes.add_created_event(an_event(f"{name}-other", workflow_id=name))
    changes.add_updated_event(an_event(f"{name}-event", workflow_id=name, state=EventState.COMPLETED))
    changes.consumed_events.append(EventId(f"{name}-mark"))
    changes.logs.append(a_log(f"{name}-log", runner_id=name))
    changes.published["p"] = PublishedValue(WorkflowId(name), "p", number, 7)
    changes.history += [HistoryEvent(HistoryKind.RUN_COMPLETED, number)]
    changes.removed.append(StepId(f"{name}/gone"))
    changes.created_runs += [
        a_run(child, parent_step=f"{name}/new", inputs={"x": child}) for child in CHILDREN[name]
    ]
    return changes


def stored(store: PersistenceAPI, name: str) -> dict[str, Any]:
    """What the store has of a run, as far as `changes_of` changes it."""
    run_id = WorkflowId(name)
    run, runner = stored_run(store, name), store.get_runner(f"{name}-runner")
    assert runner is not None
    tasks = {task.uuid: task for task in store.get_tasks_by_workflow(run_id)}
    return {
        "run": (run.state, run.ended, run.owner, run.settled, run.outputs, run.iterations, run.tags),
        "runner": (runner.state, runner.end_time, runner.duration, runner.workflow_id),
        "found by": [
            tag
            for tag in (f"team={name}", f"team=new-{name}", "kept=yes", "added=1", "added=2", "added=3")
            if name in [each.workflow_id for each in store.find_runs(RunFilter(tags=(tag,)))]
        ],
        "steps": sorted((step.id, step.state) for step in store.get_steps_by_workflow(run_id)),
        "tasks": sorted((task.uuid, task.state, task.data, task.result) for task in tasks.values()),
        "far": (tasks[f"{name}-far"].via, tasks[f"{name}-far"].bridge, tasks[f"{name}-far"].hold),
        "timed": tasks[f"{name}-timed"].timeout_ms,
        "events": sorted((each.id, each.state) for each in store.get_events_by_workflow(run_id)),
        "logs": [log.uuid for log in store.get_logs_by_runner(name)],
        "published": [(each.name, each.value) for each in store.get_published(run_id)],
        "history": [
            (position, [(each.kind, each.time) for each in events])
            for position, events in store.get_history(run_id)
        ],
        "children": [
            (child, stored_run(store, child).parent_step, stored_run(store, child).inputs)
            for child in CHILDREN[name]
        ],
    }


def test_each_run_finds_what_a_commit_of_its_own_would_have_stored(store: PersistenceAPI) -> None:
    runs = [begin_one(store, name) for name in NAMES]
    assert store.commit_all([changes_of(store, run, n) for n, run in enumerate(runs, 1)]) == [None] * 3
    for number, name in enumerate(NAMES, 1):
        assert stored(store, name) == {
            "run": (
                RunnerState.COMPLETED,
                1_000 + number,
                "",
                True,
                {"n": number},
                number,
                {"team": f"new-{name}", "kept": "yes", "added": str(number)},
            ),
            "runner": (RunnerState.COMPLETED, 1_000 + number, 900 + number, name),
            "found by": [f"team=new-{name}", "kept=yes", f"added={number}"],
            "steps": [
                (f"{name}/new", StepState.EVENT_TRANSMIT),
                (f"{name}/old", StepState.STATEMENT_COMPLETE),
            ],
            "tasks": [
                (f"{name}-far", TaskState.PENDING, None, None),
                (f"{name}-new", TaskState.PENDING, {"n": number}, None),
                (f"{name}-task", TaskState.COMPLETED, None, {"m": number}),
                (f"{name}-timed", TaskState.PENDING, None, None),
            ],
            "far": ("human:x", {"n": number}, "elsewhere"),
            "timed": number + 1,
            "events": [
                (f"{name}-event", EventState.COMPLETED),
                (f"{name}-new", EventState.CREATED),
                (f"{name}-other", EventState.CREATED),
                (f"{name}-task", EventState.COMPLETED),
            ],
            "logs": [f"{name}-log"],
            "published": [("p", number)],
            "history": [(1, [(HistoryKind.RUN_COMPLETED, number)])],
            "children": [(child, f"{name}/new", {"x": child}) for child in CHILDREN[name]],
        }


@pytest.mark.parametrize("refused", range(3))
def test_one_that_is_refused_keeps_none_of_the_others_back(store: PersistenceAPI, refused: int) -> None:
    runs = [begin_one(store, name) for name in NAMES]
    batch = [changes_of(store, run, n) for n, run in enumerate(runs, 1)]
    store.release_run(a_run(NAMES[refused], owner=store.owner_id))
    assert store.take_run(WorkflowId(NAMES[refused]), lease_ms=LONG) is not None
    problems = store.commit_all(batch)
    assert [type(problem) for problem in problems] == [
        FencedError if number == refused else type(None) for number in range(3)
    ]
    assert NAMES[refused] in str(problems[refused])
    assert [stored_run(store, name).is_over for name in NAMES] == [n != refused for n in range(3)]
    assert stored_run(store, NAMES[refused]).tags == {"team": NAMES[refused], "kept": "yes"}


def test_a_task_that_was_lost_refuses_its_run_alone(store: PersistenceAPI) -> None:
    runs = [begin_one(store, name) for name in NAMES]
    batch = [changes_of(store, run, n) for n, run in enumerate(runs, 1)]
    batch[1].updated_tasks[0].epoch += 1
    problems = store.commit_all(batch)
    assert [type(problem) for problem in problems] == [type(None), FencedError, type(None)]
    assert [stored_run(store, name).is_over for name in NAMES] == [True, False, True]


def test_a_value_that_cannot_be_stored_refuses_its_run_alone(store: PersistenceAPI) -> None:
    runs = [begin_one(store, name) for name in NAMES]
    batch = [changes_of(store, run, n) for n, run in enumerate(runs, 1)]
    runs[2].outputs = {"n": object()}
    problems = store.commit_all(batch)
    assert [type(problem) for problem in problems] == [type(None), type(None), PayloadError]
    assert [stored_run(store, name).is_over for name in NAMES] == [True, True, False]


def test_a_name_that_cannot_be_stored_refuses_its_run_at_most(store: PersistenceAPI) -> None:
    runs = [begin_one(store, each) for each in NAMES]
    batch = [changes_of(store, run, n) for n, run in enumerate(runs, 1)]
    batch[1].created_tasks[0].task_list_name = random_text(9_000)
    problems = store.commit_all(batch)
    assert isinstance(problems[1], PayloadError | None)
    assert [stored_run(store, each).is_over for each in NAMES] == [True, problems[1] is None, True]
    assert problems[0] is problems[2] is None


def test_of_two_that_start_the_same_child_the_first_has_it(store: PersistenceAPI) -> None:
    runs = [begin_one(store, each) for each in NAMES]
    batch = [changes_of(store, run, n) for n, run in enumerate(runs, 1)]
    for changes in batch[:2]:
        changes.created_runs.append(a_run("shared", parent_step=f"{changes.created_steps[0].id}"))
    assert [type(each) for each in store.commit_all(batch)] == [type(None), FencedError, type(None)]
    assert [stored_run(store, each).is_over for each in NAMES] == [True, False, True]
    assert stored_run(store, "shared").parent_step == "a/new"


def test_a_child_with_tags_is_started_again_by_its_parent(store: PersistenceAPI) -> None:
    parent = begin(store, "a")
    child = a_run("child", parent_step="a/new", parent_told=1, tags={"team": "data"})
    assert store.insert_run(child)
    child.parent_told = 0
    store.commit(IterationChanges(run=parent, created_runs=[child]))
    assert stored_run(store, "child").parent_told == 0
    assert [each.workflow_id for each in store.find_runs(RunFilter(tags=("team=data",)))] == ["child"]


def test_a_new_run_whose_id_is_taken_is_refused_alone(store: PersistenceAPI) -> None:
    begin(store, "b", outputs={"first": True})
    batch = [
        IterationChanges(run=a_run(name, inputs={"n": name}, tags={"team": name}), new_run=True)
        for name in NAMES
    ]
    problems = store.commit_all(batch)
    assert [problem is None for problem in problems] == [True, False, True]
    assert [stored_run(store, name).inputs for name in NAMES] == [{"n": "a"}, {}, {"n": "c"}]
    assert stored_run(store, "b").outputs == {"first": True}
    assert [each.workflow_id for each in store.find_runs(RunFilter(tags=("team=c",)))] == ["c"]


def test_two_commits_of_one_run_are_stored_in_their_order(store: PersistenceAPI) -> None:
    run, other = begin(store, "a"), begin(store, "b")
    first = IterationChanges(run=a_run("a", owner=store.owner_id, iterations=1))
    first.history.append(HistoryEvent(HistoryKind.RUN_PAUSED, 1))
    run.iterations = other.iterations = 2
    second = IterationChanges(run=run, history=[HistoryEvent(HistoryKind.RUN_COMPLETED, 2)])
    assert store.commit_all([first, second, IterationChanges(run=other)]) == [None] * 3
    assert [stored_run(store, name).iterations for name in ("a", "b")] == [2, 2]
    assert [number for number, _ in store.get_history(WorkflowId("a"))] == [1, 2]


def test_a_run_may_begin_and_end_in_one_batch(store: PersistenceAPI) -> None:
    begun = IterationChanges(run=a_run("a", owner=store.owner_id), new_run=True)
    begun.history.append(HistoryEvent(HistoryKind.RUN_PAUSED, 1))
    ended = IterationChanges(
        run=a_run("a", iterations=2), history=[HistoryEvent(HistoryKind.RUN_COMPLETED, 2)]
    )
    assert store.commit_all([begun, ended]) == [None, None]
    assert stored_run(store, "a").iterations == 2
    found = store.get_history(WorkflowId("a"))
    assert [(number, [each.time for each in events]) for number, events in found] == [(1, [1]), (2, [2])]
