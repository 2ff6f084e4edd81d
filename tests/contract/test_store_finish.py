"""`finish`: how outside work ends. Each outcome has an effect whole, or none.

Whole is: the task closed, the result (or error) on the step, the event ended, and a mark for the run's evaluator. None
is the answer False: the claim is no longer the caller's, or the step no longer waits. The store decides by what it
has, under locks or in a transaction that fails when somebody else wrote, so of two finishers one is told False.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from store_records import (
    LONG,
    RUN,
    Everything,
    OpenStore,
    a_task,
    a_waiting_step,
    an_outcome,
    wait_outside,
)

from afl.kernel.errors import PayloadError
from afl.runtime.entities import LogDefinition, TaskDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.events import mark_of
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import Outcome
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import EventId, StepId


def claim(store: PersistenceAPI, owner: str = "worker") -> TaskDefinition:
    task = store.claim_task(["F"], owner=owner, lease_ms=LONG)
    assert task is not None
    return task


def the_step(store: PersistenceAPI, step_id: str = "s") -> StepDefinition:
    step = store.get_step(StepId(step_id))
    assert step is not None
    return step


def the_task(store: PersistenceAPI, step_id: str = "s") -> TaskDefinition:
    task = store.get_task_by_step(StepId(step_id))
    assert task is not None
    return task


def test_what_an_outcome_says_to_the_log_is_stored_with_it(store: PersistenceAPI) -> None:
    wait_outside(store)
    entry = LogDefinition(uuid="l1", order=1, runner_id=RUN, step_id="s", message="dropped: x", time=1)
    task = claim(store)
    outcome = replace(an_outcome(the_step(store), task, out=1), logs=(entry,))
    assert store.finish([outcome]) == [True]
    assert store.get_logs_by_runner(RUN) == [entry]
    late = replace(an_outcome(the_step(store), task, out=2), logs=(replace(entry, uuid="l2"),))
    assert store.finish([late]) == [False]
    assert store.get_logs_by_runner(RUN) == [entry]


def test_a_finished_task_leaves_its_result_everywhere(store: PersistenceAPI) -> None:
    wait_outside(store)
    task = claim(store)
    outcome = an_outcome(the_step(store), task, out=[1, None, "ü\x00"], other=None)
    assert store.finish([outcome]) == [True]
    step = the_step(store)
    assert step.state == StepState.EVENT_TRANSMIT  # the evaluator moves it on
    assert step.attributes.returns == outcome.step.attributes.returns
    assert step.attributes.get_param("n") == 1
    assert (the_task(store).state, the_task(store).updated) == (TaskState.COMPLETED, 77)
    assert the_task(store).result == {"out": [1, None, "ü\x00"], "other": None}
    event = store.get_event(EventId(task.uuid))
    assert event is not None
    assert (event.state, event.payload["result"]) == (EventState.COMPLETED, the_task(store).result)
    assert store.get_marks(RUN) == [mark_of(outcome)]


def test_a_failed_task_leaves_its_error_everywhere(store: PersistenceAPI) -> None:
    wait_outside(store)
    task, step = claim(store), the_step(store)
    step.ended = 99
    step.mark_error(StepFailure("no", "AgentError"))
    task.error = {"message": "no", "type": "AgentError"}
    assert store.finish([an_outcome(step, task, TaskState.FAILED)]) == [True]
    found = the_step(store)
    assert found.is_error
    assert str(found.transition.error) == "no"
    assert found.ended == 99
    assert (the_task(store).state, the_task(store).error) == (TaskState.FAILED, task.error)
    event = store.get_event(EventId(task.uuid))
    assert event is not None
    assert event.state == EventState.ERROR


def test_type_hints_of_returns_are_kept(store: PersistenceAPI) -> None:
    wait_outside(store)
    task, step = claim(store), the_step(store)
    step.attributes.set_return("out", 1, "Int")
    assert store.finish([an_outcome(step, task)]) == [True]
    assert the_step(store).attributes.returns["out"].type_hint == "Int"


def test_a_second_outcome_is_refused_and_changes_nothing(store: PersistenceAPI) -> None:
    wait_outside(store)
    task = claim(store)
    first, second = the_step(store), the_step(store)
    assert store.finish([an_outcome(first, task, out=1)]) == [True]
    before = Everything.of(store)
    assert store.finish([an_outcome(second, task, out=2)]) == [False]
    assert Everything.of(store) == before


def test_twice_in_one_call_counts_once(store: PersistenceAPI) -> None:
    wait_outside(store)
    task = claim(store)
    both = [an_outcome(the_step(store), task, out=1), an_outcome(the_step(store), task, out=2)]
    assert store.finish(both) == [True, False]
    assert the_step(store).get_attribute("out") == 1


def test_the_outcome_of_a_holder_that_was_replaced_is_refused(store: PersistenceAPI) -> None:
    """Its epoch is old: nothing of it is stored, and the new holder's outcome is."""
    wait_outside(store)
    stale = claim(store, "old")
    store.release_tasks("old", died=True)
    fresh = claim(store, "new")
    before = Everything.of(store)
    assert store.finish([an_outcome(the_step(store), stale, out=1)]) == [False]
    assert Everything.of(store) == before
    assert store.finish([an_outcome(the_step(store), fresh, out=2)]) == [True]
    assert the_step(store).get_attribute("out") == 2


def test_an_owner_that_claims_again_cannot_use_its_old_claim(store: PersistenceAPI) -> None:
    wait_outside(store)
    stale = claim(store)
    store.release_tasks("worker", died=False)
    claim(store)
    before = Everything.of(store)
    assert store.finish([an_outcome(the_step(store), stale, out=1)]) == [False]
    assert Everything.of(store) == before


def test_a_task_that_was_given_back_cannot_be_finished(store: PersistenceAPI) -> None:
    wait_outside(store)
    stale = claim(store)
    store.release_tasks("worker", died=False)
    before = Everything.of(store)
    assert store.finish([an_outcome(the_step(store), stale, out=1)]) == [False]
    assert Everything.of(store) == before


@pytest.mark.parametrize("state", [StepState.STATEMENT_BLOCKS_BEGIN, StepState.STATEMENT_COMPLETE])
def test_a_step_that_went_on_takes_no_outcome(store: PersistenceAPI, state: str) -> None:
    wait_outside(store)
    task, waiting = claim(store), the_step(store)
    moved = the_step(store)
    moved.change_state(state)
    store.save_step(moved)
    before = Everything.of(store)
    assert store.finish([an_outcome(waiting, task, out=1)]) == [False]
    assert Everything.of(store) == before


def test_a_step_that_is_not_there_takes_no_outcome(store: PersistenceAPI) -> None:
    before = Everything.of(store)
    assert store.finish([an_outcome(a_waiting_step("missing"), None, out=1)]) == [False]
    assert Everything.of(store) == before


@pytest.mark.parametrize("claimed", [True, False])
def test_an_operator_finishes_without_a_claim(store: PersistenceAPI, claimed: bool) -> None:
    """A task without owner names no claim: whoever has it loses it."""
    wait_outside(store)
    holder = claim(store) if claimed else None
    task = the_task(store)
    task.owner = ""
    assert store.finish([an_outcome(the_step(store), task, out=1)]) == [True]
    assert the_task(store).state == TaskState.COMPLETED
    event = store.get_event(EventId(task.uuid))
    assert event is not None
    assert event.state == EventState.COMPLETED
    before = Everything.of(store)
    if holder is not None:
        assert store.finish([an_outcome(the_step(store), holder, out=2)]) == [False]
    assert store.claim_task(["F"]) is None
    assert Everything.of(store) == before


def test_an_operator_does_not_reopen_a_task_that_is_over(store: PersistenceAPI) -> None:
    store.save_step(a_waiting_step())
    store.save_task(a_task(step_id="s", state=TaskState.CANCELED))
    task = the_task(store)
    assert store.finish([an_outcome(the_step(store), task, out=1)]) == [True]
    assert the_task(store).state == TaskState.CANCELED


def test_a_step_without_task_is_finished(store: PersistenceAPI) -> None:
    store.save_step(a_waiting_step())
    assert store.finish([an_outcome(the_step(store), None, out=1)]) == [True]
    assert the_step(store).get_attribute("out") == 1
    assert [mark.step_id for mark in store.get_marks(RUN)] == ["s"]


def test_outcomes_together_stand_each_for_itself(store: PersistenceAPI) -> None:
    for name in ("s1", "s2", "s3"):
        wait_outside(store, name)
    tasks = store.claim_tasks(["F"], limit=3, owner="worker", lease_ms=LONG)
    tasks[1].epoch += 1
    outcomes = [an_outcome(the_step(store, t.step_id), t, out=i) for i, t in enumerate(tasks)]
    assert store.finish(outcomes) == [True, False, True]
    assert [mark.step_id for mark in store.get_marks(RUN)] == ["s1", "s3"]
    assert [the_task(store, f"s{n}").state for n in (1, 2, 3)] == ["completed", "running", "completed"]
    assert the_step(store, "s2").attributes.returns == {}
    assert store.finish([]) == []


def test_a_result_that_is_no_plain_data_is_refused_with_all_that_came_with_it(store: PersistenceAPI) -> None:
    for name in ("s1", "s2"):
        wait_outside(store, name)
    tasks = store.claim_tasks(["F"], limit=2, owner="worker", lease_ms=LONG)
    before = Everything.of(store)
    good = an_outcome(the_step(store, "s1"), tasks[0], out=1)
    bad_step = the_step(store, "s2")
    bad_step.set_attribute("out", object(), is_return=True)
    bad = Outcome(bad_step, tasks[1])
    with pytest.raises(PayloadError):
        store.finish([good, bad])
    assert Everything.of(store) == before


def test_of_two_finishers_at_once_one_succeeds(open_store: OpenStore) -> None:
    first, second = open_store(), open_store()
    together = threading.Barrier(2)

    def work(store: PersistenceAPI, outcome: Outcome) -> bool:
        together.wait()
        return store.finish([outcome])[0]

    for number in range(20):
        step_id = f"s{number}"
        wait_outside(first, step_id)
        task = claim(first)
        mine = an_outcome(the_step(first, step_id), task, out=1)
        theirs = an_outcome(the_step(second, step_id), None, out=2)
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(work, [first, second], [mine, theirs]))
        assert sorted(done) == [False, True]
        assert the_step(first, step_id).get_attribute("out") == (1 if done[0] else 2)
        marks = [mark for mark in first.get_marks(RUN) if mark.step_id == step_id]
        assert len(marks) == 1
