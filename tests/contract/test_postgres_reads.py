"""On PostgreSQL no act of the runtime reads more because there is more in the store.

Plans are made once, here while there is next to nothing, and without statistics, as on a new server. A plan that was
good then may read all of a table later; the numbers of rows and index entries show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

import pytest
from store_records import LONG, a_mark, a_run, a_task, a_waiting_step, an_outcome, claimed, stored_task
from support.databases import fresh_postgres_database
from support.reading import multiply, rows_read

from afl.kernel.clock import wall_ms
from afl.kernel.database import Query
from afl.runtime.entities import TaskDefinition, TaskHold
from afl.runtime.persistence import TaskFilter
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.stores.sql_store.tasks import waiting_keys
from afl.runtime.types import WorkflowId

MORE = 300  # times as much as at first
FEW = 90  # what an act may read; each of them handles one task or run, and looks at a few besides

_NO_MARKS = Query.of("delete from afl_events where event_type = 'StepContinue'", name="no_marks")

TABLES = {
    "afl_runs": ("workflow_id",),
    "afl_inputs": ("workflow_id",),
    "afl_steps": ("id", "workflow_id"),
    "afl_events": ("id", "step_id", "workflow_id"),
    "afl_tasks": ("uuid", "step_id", "workflow_id"),
}


class Acts:
    """What happens to tasks and runs, each with a way to bring it about; `name` gives both."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self._numbers = count()

    def a_run_with(self, **fields: object) -> TaskDefinition:
        """A run that nobody holds, and a step of it that waits for its task."""
        number = next(self._numbers)
        run = a_run(f"run-{number}", state="running", settled=True, waiting=1, inputs={"n": number})
        changes = IterationChanges(run=run, new_run=True)
        changes.add_created_step(a_waiting_step(f"run-{number}/s", run.workflow_id, n=1))
        task = a_task(f"task-{number}", workflow_id=run.workflow_id, step_id=f"run-{number}/s", **fields)
        if task.via:
            task.hold = TaskHold.ELSEWHERE
        changes.add_created_task(task)
        self.store.commit(changes)
        return stored_task(self.store, task.uuid)

    def held(self, **fields: object) -> TaskDefinition:
        self.a_run_with(**fields)
        return claimed(self.store)

    def elsewhere(self) -> TaskDefinition:
        return self.a_run_with(via="agent:researcher", bridge={})


@dataclass(frozen=True)
class Act:
    """One act: what must be there before it, and the act itself, which is counted."""

    given: Callable[[Acts], TaskDefinition]
    done: Callable[[PostgresStore, TaskDefinition], object]


def _finish(store: PostgresStore, task: TaskDefinition) -> None:
    outcome = an_outcome(a_waiting_step(task.step_id, task.workflow_id), replace(task), out=1)
    assert store.finish([replace(outcome, elsewhere=bool(task.via))]) == [True]


def _take(store: PostgresStore, task: TaskDefinition) -> None:
    assert store.take_runs([WorkflowId(task.workflow_id)], lease_ms=LONG)


def _due(store: PostgresStore, task: TaskDefinition) -> None:
    assert task.workflow_id in store.get_due_runs()


def _marked(acts: Acts) -> TaskDefinition:
    task = acts.a_run_with()
    acts.store.save_event(a_mark(f"mark-{task.uuid}", task.workflow_id, task.step_id))
    return task


def _paused(acts: Acts) -> TaskDefinition:
    task = acts.a_run_with()
    assert acts.store.pause_run(WorkflowId(task.workflow_id), "wait")
    return task


def _called_off(acts: Acts) -> TaskDefinition:
    task = acts.elsewhere()
    assert acts.store.cancel_run(WorkflowId(task.workflow_id), "no")
    return task


def _asked(acts: Acts) -> TaskDefinition:
    return acts.a_run_with(via="human:finance", bridge={}, patience_ms=LONG)


def _first_of_key(acts: Acts) -> TaskDefinition:
    """One more waits for a key that two may have; the first of those who have it."""
    acts.a_run_with(concurrency_key="k", concurrency_limit=2)
    return next(task for task in acts.store.find_tasks(TaskFilter(state="pending", key="k")) if not task.hold)


def _run_id(task: TaskDefinition) -> WorkflowId:
    return WorkflowId(task.workflow_id)


ACTS = {
    "claim": Act(lambda a: a.a_run_with(priority=9), lambda s, t: claimed(s)),
    "claim of a run": Act(
        lambda a: a.a_run_with(),
        lambda s, t: s.claim_tasks(["ns.F"], limit=5, lease_ms=LONG, workflow_id=t.workflow_id),
    ),
    "start": Act(lambda a: a.held(priority=9), lambda s, t: s.start_tasks([t])),
    "renew": Act(lambda a: a.held(priority=9), lambda s, t: s.renew_task(t, LONG)),
    "finish": Act(lambda a: a.held(priority=9), _finish),
    "give back": Act(lambda a: a.held(priority=9), lambda s, t: s.return_tasks([t])),
    "try again": Act(lambda a: a.held(priority=9), lambda s, t: s.requeue(t, 0, {})),
    "lock of a task": Act(lambda a: a.held(priority=9), lambda s, t: s.check_lock(f"runner:task:{t.uuid}")),
    "hand over": Act(lambda a: a.held(priority=9), lambda s, t: s.hand_over(t, "agent:researcher")),
    "answer from elsewhere": Act(lambda a: a.elsewhere(), _finish),
    "ask the next one": Act(_asked, lambda s, t: s.ask_next(t, "human:boss")),
    "tell the other side": Act(_called_off, lambda s, t: s.told(t)),
    "what is new elsewhere": Act(
        lambda a: a.elsewhere(),
        lambda s, t: s.find_tasks(TaskFilter(hold="elsewhere", state="pending", via="agent", after=t.uuid)),
    ),
    "take a run": Act(lambda a: a.a_run_with(), _take),
    "a run": Act(lambda a: a.a_run_with(), lambda s, t: s.get_run(_run_id(t))),
    "newest runs": Act(lambda a: a.a_run_with(), lambda s, t: s.get_runs(limit=5)),
    "unpause": Act(_paused, lambda s, t: s.unpause_run(_run_id(t))),
    "cancel": Act(lambda a: a.a_run_with(), lambda s, t: s.cancel_run(_run_id(t), "no")),
}


DUE = Act(_marked, _due)
PLACED = Act(_first_of_key, lambda s, t: s.close_tasks([replace(t, state="ignored", updated=wall_ms())]))


@pytest.fixture(scope="module")
def grown(postgres_url: str) -> Iterator[Acts]:
    """A store in which everything was done while it was empty, and in which there is much now."""
    with fresh_postgres_database(postgres_url) as url:
        store = PostgresStore(url)
        acts = Acts(store)
        for _ in range(3):
            for act in (*ACTS.values(), DUE, PLACED):
                act.done(store, act.given(acts))
            store.reclaim()
        for act in ACTS.values():
            act.given(acts)
        store.database.write(lambda tx: tx.run(_NO_MARKS))
        multiply(store.database, TABLES, MORE)
        yield acts
        store.close()


@pytest.mark.parametrize("name", list(ACTS))
def test_an_act_reads_what_it_is_about_and_no_more(grown: Acts, name: str) -> None:
    act = ACTS[name]
    given = act.given(grown)
    assert 0 < rows_read(grown.store.database, lambda: act.done(grown.store, given)) < FEW


def test_runs_that_are_due_are_found_by_their_marks(grown: Acts) -> None:
    """Not by looking at every open run."""
    given = _marked(grown)
    assert 0 < rows_read(grown.store.database, lambda: _due(grown.store, given)) < FEW


def test_a_place_goes_to_the_first_that_waits_without_a_look_at_the_others(grown: Acts) -> None:
    for _ in range(MORE):
        given = _first_of_key(grown)
    assert 0 < rows_read(grown.store.database, lambda: PLACED.done(grown.store, given)) < FEW
    assert 0 < rows_read(grown.store.database, lambda: waiting_keys(grown.store.database.select)) < FEW
    assert (
        len(grown.store.find_tasks(TaskFilter(state="pending", hold="concurrency", key="k", limit=MORE * 2)))
        == MORE - 3
    )
