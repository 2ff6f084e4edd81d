"""The sweep: what too many died on, what took too long, and steps that nobody will continue."""

from __future__ import annotations

from typing import Any

import pytest
from support.agents import LONG, begin, double, only_task, received, run_of
from support.lives import Lives

from afl.kernel.database import Query
from afl.runtime.agent_poller import AgentPoller
from afl.runtime.entities import RunnerState, TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.recovery.sweep import continue_lost_steps, judge, reclaim
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import EventId, StepId

TIMED = """
namespace ns {
    event facet Double(n: Long) => (m: Long) with Timeout(ms = 1)
    workflow Once(n: Long) => (m: Long) andThen { d = Double($.n) yield Once(m = d.m) }
    workflow Again(n: Long) => (m: Long) andThen {
        d = Double($.n) with Retry(2, backoff = 0, on = ["Timeout"])
        yield Again(m = d.m)
    }
    workflow Careful(n: Long) => (m: Long) andThen {
        d = Double($.n) catch when {
            case d.error_type == "Timeout" => { yield Double(m = 0) }
            case _ => { yield Double(m = -1) }
        }
        yield Careful(m = d.m)
    }
}
"""


def take(store: PersistenceAPI, **terms: Any) -> TaskDefinition:
    task = store.claim_task(["Double"], **{"lease_ms": LONG, **terms})
    assert task is not None
    store.start_tasks([task])
    return task


def step_of(store: PersistenceAPI, run: str) -> StepDefinition:
    step = store.get_step(StepId(only_task(store, run).step_id))
    assert step is not None
    return step


def go_on(store: PersistenceAPI, run: str) -> None:
    Evaluator(store).resume(run)  # type: ignore[arg-type]


# -- deaths ---------------------------------------------------------------------------------------------------


def test_what_too_many_died_on_fails_and_says_who_died() -> None:
    lives = Lives()
    store = lives.next()
    store.max_deliveries = 3
    run = begin(store)
    for _ in range(3):
        take(store)
        store = lives.next()
        store.max_deliveries = 3
        reclaim(Evaluator(store))
    go_on(store, run)
    task = only_task(store, run)
    assert (task.state, task.deaths, task.deliveries) == (TaskState.FAILED, 3, 3)
    assert task.error == {
        "message": "given up: 3 workers died while working on it, the last was life-3",
        "type": "Poisoned",
    }
    assert run_of(store, run).state == RunnerState.FAILED
    event = store.get_event(EventId(task.uuid))
    assert event is not None
    assert event.state == EventState.ERROR
    lives.end()


def test_at_most_once_fails_with_the_first_death() -> None:
    lives = Lives()
    store = lives.next()
    store.max_deliveries = 1
    run = begin(store)
    take(store)
    store = lives.next()
    store.max_deliveries = 1
    reclaim(Evaluator(store))
    error = only_task(store, run).error
    assert error is not None
    assert error["message"] == "given up: its worker died while working on it, the last was life-1"
    lives.end()


def test_before_that_it_is_delivered_again() -> None:
    lives = Lives()
    store = lives.next()
    run = begin(store)
    take(store)
    store = lives.next()
    assert reclaim(Evaluator(store)) == 1
    task = only_task(store, run)
    assert (task.state, task.hold, task.deaths, task.last_owner) == (TaskState.PENDING, "", 1, "life-1")
    assert run_of(store, run).state == RunnerState.RUNNING
    lives.end()


def test_a_poisoned_task_without_a_step_fails_too(store: MemoryStore) -> None:
    store.save_task(
        TaskDefinition("t", "F", "", "", "", "", hold=TaskHold.POISONED, deaths=5, last_owner="somebody")
    )
    judge(Evaluator(store))
    task = store.get_task("t")
    assert task is not None
    assert task.state == TaskState.FAILED
    assert task.error is not None
    assert task.error["message"].startswith("given up: 5 workers died while working on it, the last was ")
    assert task.error["type"] == "Poisoned"


def test_two_who_judge_come_to_one_verdict(store: MemoryStore) -> None:
    run = begin(store)
    task = take(store)
    task.state, task.hold, task.deaths, task.owner = TaskState.PENDING, TaskHold.POISONED, 5, ""
    store.save_task(task)
    judge(Evaluator(store))
    judge(Evaluator(store))
    assert len(store.get_marks(run)) == 1
    go_on(store, run)
    assert run_of(store, run).state == RunnerState.FAILED


# -- time limits ----------------------------------------------------------------------------------------------


def time_out(store: MemoryStore, run: str) -> None:
    take(store)
    received(store, "nothing", lambda: reclaim(Evaluator(store)))
    go_on(store, run)


def test_one_task_that_cannot_be_judged_holds_up_no_other(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = begin(store, source=TIMED), begin(store, source=TIMED)
    for _ in range(2):
        take(store)
    uuid = only_task(store, bad).uuid
    trigger = (
        f"create trigger refused before update on afl_tasks when new.uuid = '{uuid}' and new.state = 'failed' "
        "begin select raise(abort, 'a bad row'); end"
    )
    store.database.atomic(Query("refuse", sqlite=trigger, postgres=None))

    def sweep() -> bool:
        reclaim(Evaluator(store))
        return only_task(store, good).state == TaskState.FAILED

    received(store, "nothing", sweep)
    sweep()
    assert only_task(store, bad).state == TaskState.PENDING
    assert sum(uuid in each.getMessage() for each in caplog.records if each.levelname == "ERROR") == 1


def test_what_takes_too_long_fails_with_the_type_timeout(store: MemoryStore) -> None:
    run = begin(store, source=TIMED)
    time_out(store, run)
    task = only_task(store, run)
    assert (task.state, task.deaths) == (TaskState.FAILED, 0)
    assert task.error == {"message": "not done after 1 ms", "type": "Timeout"}
    assert run_of(store, run).state == RunnerState.FAILED


def test_a_time_limit_can_be_caught(store: MemoryStore) -> None:
    run = begin(store, "ns.Careful", source=TIMED)
    time_out(store, run)
    assert run_of(store, run).outputs == {"m": 0}


def test_a_time_limit_can_be_retried(store: MemoryStore) -> None:
    run = begin(store, "ns.Again", source=TIMED)
    time_out(store, run)
    task = only_task(store, run)
    assert (task.state, task.failures, task.hold) == (TaskState.PENDING, 1, "")
    assert task.error == {"message": "not done after 1 ms", "type": "Timeout"}
    time_out(store, run)
    assert only_task(store, run).state == TaskState.FAILED
    assert run_of(store, run).state == RunnerState.FAILED


def test_a_late_answer_is_refused(store: MemoryStore) -> None:
    run = begin(store, source=TIMED)
    late = take(store)
    received(store, "nothing", lambda: reclaim(Evaluator(store)))
    assert not Evaluator(store).continue_step(StepId(late.step_id), {"m": 1}, task=late)
    go_on(store, run)
    assert run_of(store, run).state == RunnerState.FAILED


# -- lost steps -----------------------------------------------------------------------------------------------


def lost(store: PersistenceAPI) -> int:
    return continue_lost_steps(Evaluator(store))


def close(store: PersistenceAPI, run: str, state: str, error: dict[str, Any] | None = None) -> None:
    """Somebody closes the task without a word to the step."""
    task = only_task(store, run)
    task.state, task.error = state, error
    store.save_task(task)


def test_nothing_is_lost_while_somebody_has_the_task_or_may_have_it(store: MemoryStore) -> None:
    begin(store)
    assert lost(store) == 0
    take(store)
    assert lost(store) == 0


def test_a_result_without_a_word_goes_on(store: MemoryStore) -> None:
    run = begin(store)
    step = step_of(store, run)
    step.set_attribute("m", 8, is_return=True)
    step.request_state_change(True)
    store.save_step(step)
    store.database.atomic(Query("forget", sqlite="delete from afl_events", postgres=None))
    close(store, run, TaskState.IGNORED)
    assert lost(store) == 1
    go_on(store, run)
    assert run_of(store, run).outputs == {"m": 8}
    assert lost(store) == 0


def test_a_task_that_an_agent_of_another_language_completed_goes_on(store: MemoryStore) -> None:
    run = begin(store)
    step = step_of(store, run)
    step.set_attribute("m", 9, is_return=True)
    store.save_step(step)
    close(store, run, TaskState.COMPLETED)
    assert lost(store) == 1
    assert lost(store) == 0, "the mark is there"
    go_on(store, run)
    assert run_of(store, run).outputs == {"m": 9}


def test_a_completed_task_without_a_result_fails_the_step(store: MemoryStore) -> None:
    run = begin(store)
    close(store, run, TaskState.COMPLETED)
    assert lost(store) == 1
    go_on(store, run)
    assert run_of(store, run).state == RunnerState.FAILED
    assert "the result lacks m" in str(run_of(store, run).error)


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (TaskState.FAILED, {"message": "no paper"}, "no paper"),
        (TaskState.FAILED, None, "its task was failed"),
        (TaskState.CANCELED, None, "its task was canceled"),
    ],
)
def test_a_task_that_was_failed_or_canceled_by_hand_fails_its_step(
    store: MemoryStore, state: str, error: dict[str, Any] | None, message: str
) -> None:
    run = begin(store)
    close(store, run, state, error)
    assert lost(store) == 1
    go_on(store, run)
    assert step_of(store, run).state == StepState.STATEMENT_ERROR
    found = run_of(store, run)
    assert found.state == RunnerState.FAILED
    assert found.error is not None
    assert found.error["message"] == message


def test_a_task_that_is_gone_is_made_anew(store: MemoryStore) -> None:
    run = begin(store, task_list="special")
    close(store, run, TaskState.IGNORED)
    assert lost(store) == 1
    old, new = store.get_tasks_by_workflow(run)
    assert (old.state, new.state) == (TaskState.IGNORED, TaskState.PENDING)
    assert (new.name, new.params, new.task_list_name) == ("ns.Double", {"n": 3}, "special")
    assert (new.step_id, new.workflow_id, new.runner_id) == (old.step_id, run, old.runner_id)
    assert lost(store) == 0
    store.claim_task(["Double"], "special")
    assert Evaluator(store).continue_step(StepId(new.step_id), {"m": 4})
    go_on(store, run)
    assert run_of(store, run).outputs == {"m": 4}


def test_a_task_made_anew_keeps_the_policies_of_the_step(store: MemoryStore) -> None:
    run = begin(store, "ns.Again", source=TIMED)
    old = only_task(store, run)
    close(store, run, TaskState.IGNORED)
    assert lost(store) == 1
    new = store.get_tasks_by_workflow(run)[1]
    assert (new.timeout_ms, new.retry) == (old.timeout_ms, old.retry) == (1, new.retry)
    assert new.retry is not None


def test_a_poller_finishes_what_was_lost(store: MemoryStore) -> None:
    run = begin(store)
    close(store, run, TaskState.IGNORED)
    lost(store)
    poller = AgentPoller(store, Evaluator(store))
    poller.register("Double", double)
    assert poller.poll_once() == 1
    assert run_of(store, run).outputs == {"m": 6}
