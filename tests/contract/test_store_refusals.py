"""What refuses a commit leaves every table as it was.

The commit has an effect only if the stored run still has the epoch that the changes name; a task closed in it must
still be held under its own. A value that is not plain data refuses it before anything is written, an id that is taken
while it is.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from store_records import (
    LONG,
    NOTHING,
    RUN,
    Everything,
    a_log,
    a_run,
    a_step,
    a_task,
    a_waiting_step,
    all_kinds,
    an_event,
    begin_with_all_kinds,
)

from afl.kernel.errors import FencedError, PayloadError, StoreConflict
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges


def test_a_commit_under_an_old_epoch_stores_nothing(store: PersistenceAPI) -> None:
    run = begin_with_all_kinds(store)
    store.release_run(run)
    assert store.take_run(RUN, lease_ms=LONG) is not None
    before = Everything.of(store)
    run.state, run.ended = RunnerState.COMPLETED, 500
    with pytest.raises(FencedError, match=RUN):
        store.commit(all_kinds(run))
    assert Everything.of(store) == before


def test_a_commit_to_a_run_that_is_not_stored_stores_nothing(store: PersistenceAPI) -> None:
    with pytest.raises(FencedError):
        store.commit(all_kinds(a_run(owner=store.owner_id)))
    assert Everything.of(store) == NOTHING


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_new_run_does_not_replace_an_old_one(store: PersistenceAPI, epoch: int) -> None:
    begin_with_all_kinds(store)
    before = Everything.of(store)
    with pytest.raises((StoreConflict, FencedError)):
        store.commit(all_kinds(a_run(epoch=epoch, outputs={"x": 1}), new_run=True))
    assert Everything.of(store) == before


@pytest.mark.parametrize("holder", ["new", "old"])
def test_a_commit_that_closes_a_task_it_lost_stores_nothing(store: PersistenceAPI, holder: str) -> None:
    """The run is still held, the task is not: the task's epoch is a fence of its own, also for one who claims again."""
    run = begin_with_all_kinds(store)
    lost = store.claim_task(["F"], owner="old", lease_ms=LONG)
    assert lost is not None
    store.release_tasks("old", died=True)
    assert store.claim_task(["F"], owner=holder, lease_ms=LONG) is not None
    before = Everything.of(store)
    lost.state = TaskState.COMPLETED
    changes = all_kinds(run)
    changes.updated_tasks = [lost]
    with pytest.raises(FencedError):
        store.commit(changes)
    assert Everything.of(store) == before


def unfit_step(changes: IterationChanges) -> None:
    changes.add_created_step(a_waiting_step("unfit", n=object()))


def unfit_change(changes: IterationChanges) -> None:
    changes.updated_steps[0].set_attribute("n", object())


def unfit_event(changes: IterationChanges) -> None:
    changes.add_created_event(an_event("unfit", payload={"x": object()}))


def unfit_task(changes: IterationChanges) -> None:
    changes.add_created_task(a_task("unfit", data={"x": object()}))


def unfit_log(changes: IterationChanges) -> None:
    changes.logs.append(a_log("unfit", details={"x": object()}))


def unfit_output(changes: IterationChanges) -> None:
    assert changes.run is not None
    changes.run.outputs = {"x": object()}


@pytest.mark.parametrize(
    "spoil", [unfit_step, unfit_change, unfit_event, unfit_task, unfit_log, unfit_output]
)
def test_a_value_that_is_no_plain_data_refuses_the_whole_commit(
    store: PersistenceAPI, spoil: Callable[[IterationChanges], None]
) -> None:
    run = begin_with_all_kinds(store)
    before = Everything.of(store)
    changes = all_kinds(run)
    spoil(changes)
    with pytest.raises(PayloadError):
        store.commit(changes)
    assert Everything.of(store) == before


def taken_step(changes: IterationChanges) -> None:
    changes.created_steps.append(a_step("old"))


def taken_task(changes: IterationChanges) -> None:
    changes.add_created_task(a_task("old-task"))


def taken_log(changes: IterationChanges) -> None:
    changes.logs.append(a_log("old-log"))


def second_running_task(changes: IterationChanges) -> None:
    for uuid in ("twin-1", "twin-2"):
        changes.add_created_task(a_task(uuid, step_id="new-2", state=TaskState.RUNNING, owner="worker"))


@pytest.mark.parametrize("spoil", [taken_step, taken_task, taken_log, second_running_task])
@pytest.mark.parametrize("fenced", [True, False])
def test_what_the_schema_refuses_refuses_the_whole_commit(
    store: PersistenceAPI, spoil: Callable[[IterationChanges], None], fenced: bool
) -> None:
    run = begin_with_all_kinds(store)
    before = Everything.of(store)
    changes = all_kinds(run if fenced else None)
    spoil(changes)
    with pytest.raises(StoreConflict):
        store.commit(changes)
    assert Everything.of(store) == before
