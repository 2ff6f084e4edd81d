"""Work that goes on elsewhere, as every store keeps it: with an agent, on the fleet, by a message, with a person.

Nobody claims such a task; the other side ends it, under its epoch. Whoever else ends it leaves the mark that the other
side has not been told, but for people, who need not be.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
from store_records import (
    LONG,
    RUN,
    SECONDS,
    Everything,
    OpenStore,
    a_run,
    a_task,
    a_waiting_step,
    an_event,
    an_outcome,
    begin,
    begun,
    claimed,
    eventually,
    of_stores,
    stored_task,
)

from afl.kernel.clock import wall_ms
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.topics import CANCEL_TOPIC, ELSEWHERE_TOPIC, RUNS_TOPIC
from afl.runtime.types import WorkflowId

VIAS = ["agent:researcher", "fleet:etl.daily", "message:translator", "human:finance"]
BRIDGE = {"title": "Pay it?", "escalate_to": "boss"}
NO = {"message": "no", "type": "AgentError"}


def hand_out(store: PersistenceAPI, via: str = VIAS[0], step_id: str = "s", **fields: Any) -> TaskDefinition:
    """A stored step of a stored run that waits for the other side, as an evaluator commits it."""
    run = store.get_run(RUN) or begin(store)
    task = a_task(f"task-{step_id}", step_id=step_id, data={"n": 1}, via=via, bridge=BRIDGE, **fields)
    task.hold = TaskHold.ELSEWHERE
    changes = IterationChanges(run=run)
    changes.add_created_step(a_waiting_step(step_id, n=1))
    changes.add_created_task(task)
    changes.add_created_event(an_event(task.uuid, step_id=step_id))
    store.commit(changes)
    return stored_task(store, task.uuid)


def answered(store: PersistenceAPI, task: TaskDefinition, **returns: Any) -> bool:
    """The other side's word that the work is done."""
    outcome = an_outcome(a_waiting_step(task.step_id, n=1), copy(task), **(returns or {"out": 1}))
    return store.finish([replace(outcome, elsewhere=True)])[0]


def uuids(tasks: list[TaskDefinition]) -> list[str]:
    return [task.uuid for task in tasks]


def standing(store: PersistenceAPI, task: TaskDefinition) -> tuple[str, str]:
    found = stored_task(store, task.uuid)
    return found.state, found.hold


# -- birth ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("via", VIAS)
def test_a_task_is_born_elsewhere_and_nobody_claims_it(store: PersistenceAPI, via: str) -> None:
    task = hand_out(store, via)
    assert (task.state, task.hold, task.via, task.bridge) == (TaskState.PENDING, "elsewhere", via, BRIDGE)
    assert (task.owner, task.deadline, task.lease_until) == ("", 0, 0)
    assert store.claim_tasks(["F", "ns.F"], limit=5, any_event=True) == []
    assert store.claim_tasks(["F"], limit=5, workflow_id=RUN, any_event=True) == []
    assert store.get_lost_steps() == []
    assert store.reclaim() == 0


def test_a_commit_of_no_run_makes_them_too(store: PersistenceAPI) -> None:
    task = a_task(via="agent:x", timeout_ms=LONG, patience_ms=LONG // 2)
    store.commit(IterationChanges(created_tasks=[task]))
    found = stored_task(store)
    assert (found.hold, found.via, found.bridge) == ("elsewhere", "agent:x", None)
    assert 0 < found.lease_until - store.now() <= LONG // 2 < found.deadline - store.now() <= LONG


def test_several_runs_are_committed_with_them(store: PersistenceAPI) -> None:
    batch = [
        IterationChanges(
            run=a_run(run, owner=store.owner_id),
            new_run=True,
            created_tasks=[a_task(f"t-{run}", workflow_id=run, via=f"human:{run}", bridge={"n": run})],
        )
        for run in ("a", "b")
    ]
    assert store.commit_all(batch) == [None, None]
    assert uuids(store.find_tasks(TaskFilter(hold="elsewhere", via="human"))) == ["t-a", "t-b"]
    assert stored_task(store, "t-b").bridge == {"n": "b"}


def test_its_time_runs_from_its_creation(store: PersistenceAPI) -> None:
    before = store.now()
    task = hand_out(store, timeout_ms=LONG, retry={"attempts": 2})
    assert before + LONG <= task.deadline <= store.now() + LONG
    assert task.retry == {"attempts": 2}
    assert task.lease_until == 0


def test_ordinary_tasks_have_nothing_of_it(store: PersistenceAPI) -> None:
    store.commit(IterationChanges(created_tasks=[a_task(), a_task("timed", timeout_ms=5)]))
    assert (stored_task(store).via, stored_task(store).bridge) == ("", None)
    timed = stored_task(store, "timed")
    assert (timed.via, timed.hold, timed.deadline) == ("", "", 0)
    assert store.find_tasks(TaskFilter(hold="elsewhere")) == []


# -- finding --------------------------------------------------------------------------------------------------


def test_they_are_found_by_kind_and_by_name(store: PersistenceAPI) -> None:
    for number, via in enumerate([*VIAS, "human:finance-leads", "agentur:x"]):
        hand_out(store, via, f"s{number}")
    hand_out(store, "agent:z", "s9")
    store.save_task(a_task("plain"))

    def found(**asked: Any) -> list[str]:
        return [task.via for task in store.find_tasks(TaskFilter(hold="elsewhere", **asked))]

    assert found(via="agent") == ["agent:researcher", "agent:z"]
    assert found(via="human") == ["human:finance", "human:finance-leads"]
    assert found(via="human:finance") == ["human:finance"]
    assert found(via="nobody") == []
    assert len(found()) == 7
    assert found(limit=2) == VIAS[:2]
    assert found(after="task-s1", limit=2) == VIAS[2:]
    assert found(prefix="task-s9") == ["agent:z"]
    assert found(via="human", name="F", task_list="default") == ["human:finance", "human:finance-leads"]
    assert [task.via for task in store.find_tasks(TaskFilter(via="fleet"))] == ["fleet:etl.daily"]
    assert uuids(store.find_tasks(TaskFilter(state=TaskState.PENDING, via="fleet"))) == ["task-s1"]
    assert uuids(store.find_tasks(TaskFilter(state=TaskState.PENDING, after="task-s9"))) == ["plain"]


# -- the other side ends it -----------------------------------------------------------------------------------


def test_the_other_side_ends_it(store: PersistenceAPI) -> None:
    task = hand_out(store)
    ended = copy(task)
    ended.bridge = {"answered_by": "ann"}
    assert answered(store, ended, out=7)
    found = stored_task(store, task.uuid)
    assert (found.state, found.hold, found.result) == (TaskState.COMPLETED, "", {"out": 7})
    assert (found.bridge, found.via) == ({"answered_by": "ann"}, task.via)
    step = store.get_steps_by_workflow(RUN)[0]
    assert step.attributes.returns["out"].value == 7
    assert [mark.step_id for mark in store.get_marks(RUN)] == ["s"]
    assert store.ended_elsewhere("agent") == []


def test_it_ends_once(store: PersistenceAPI) -> None:
    task = hand_out(store)
    assert answered(store, task, out=1)
    before = Everything.of(store)
    assert not answered(store, task, out=2)
    assert Everything.of(store) == before


@pytest.mark.parametrize(
    "change",
    [{"epoch": 9}, {"via": "agent:other"}, {"uuid": "missing"}],
    ids=["another epoch", "another place", "no such task"],
)
def test_what_is_not_there_is_not_ended(store: PersistenceAPI, change: dict[str, Any]) -> None:
    task = hand_out(store)
    before = Everything.of(store)
    assert not answered(store, replace(task, **change))
    assert Everything.of(store) == before


def cancel(store: PersistenceAPI, task: TaskDefinition) -> object:
    return store.cancel_run(RUN, "enough")


def time_out(store: PersistenceAPI, task: TaskDefinition) -> object:
    return store.reclaim()


def try_again(store: PersistenceAPI, task: TaskDefinition) -> object:
    return store.requeue(task, 0, NO)


def ask_another(store: PersistenceAPI, task: TaskDefinition) -> object:
    return store.ask_next(task, "human:boss")


def go_on_by_hand(store: PersistenceAPI, task: TaskDefinition) -> object:
    unclaimed = copy(task)
    return store.finish([an_outcome(a_waiting_step("s", n=1), unclaimed, out=0)])[0]


@pytest.mark.parametrize("before", [cancel, time_out, try_again, ask_another, go_on_by_hand])
def test_an_answer_that_comes_late_has_no_effect(
    store: PersistenceAPI, before: Callable[[PersistenceAPI, TaskDefinition], object]
) -> None:
    task = hand_out(store, timeout_ms=1)
    eventually(lambda: store.now() > task.deadline)
    assert before(store, task)
    stands = Everything.of(store)
    assert not answered(store, task, out="late")
    assert Everything.of(store) == stands


@pytest.mark.parametrize("rivals", [4])
def test_of_many_answers_at_once_one_counts(open_store: OpenStore, rivals: int) -> None:
    store = open_store()
    task = hand_out(store)
    others = [open_store() for _ in range(rivals)]
    start = threading.Barrier(rivals)

    def answer(number: int) -> bool:
        start.wait()
        return answered(others[number], task, out=number)

    with ThreadPoolExecutor(rivals) as pool:
        won = list(pool.map(answer, range(rivals)))
    assert sum(won) == 1
    assert stored_task(store, task.uuid).result == {"out": won.index(True)}
    assert len(store.get_marks(RUN)) == 1


@pytest.mark.parametrize("rival", [cancel, try_again, ask_another])
def test_an_answer_and_a_rival_at_once(
    open_store: OpenStore, rival: Callable[[PersistenceAPI, TaskDefinition], object]
) -> None:
    store = open_store()
    task = hand_out(store)
    one, other = open_store(), open_store()
    start = threading.Barrier(2)

    def answer() -> bool:
        start.wait()
        return answered(one, task, out=1)

    def race() -> bool:
        start.wait()
        return bool(rival(other, task))

    with ThreadPoolExecutor(2) as pool:
        won, lost = (each.result() for each in (pool.submit(answer), pool.submit(race)))
    state, hold = standing(store, task)
    if won:
        assert (state, hold) == (TaskState.COMPLETED, "")
    else:
        assert lost
        assert hold == "elsewhere"
        assert state == (TaskState.CANCELED if rival is cancel else TaskState.PENDING)


# -- somebody else ends it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("via", VIAS)
@pytest.mark.parametrize("end", [cancel, go_on_by_hand])
def test_whoever_is_not_told_is_found(
    store: PersistenceAPI, via: str, end: Callable[[PersistenceAPI, TaskDefinition], object]
) -> None:
    task = hand_out(store, via)
    kind = via.partition(":")[0]
    assert end(store, task)
    assert store.find_tasks(TaskFilter(hold="elsewhere")) == []
    if kind == "human":
        assert store.ended_elsewhere(kind) == []
        assert stored_task(store, task.uuid).hold == ""
        assert not store.told(task)
        return
    assert uuids(store.ended_elsewhere(kind)) == [task.uuid]
    assert store.ended_elsewhere("other") == []
    assert store.told(task)
    assert store.ended_elsewhere(kind) == []
    assert not store.told(task)


def test_a_task_that_goes_on_is_not_told_of_its_end(store: PersistenceAPI) -> None:
    task = hand_out(store)
    assert not store.told(task)
    assert store.ended_elsewhere("agent") == []
    assert standing(store, task) == (TaskState.PENDING, "elsewhere")


def test_the_untold_come_oldest_first_and_not_all_at_once(store: PersistenceAPI) -> None:
    tasks = [hand_out(store, "fleet:x", f"s{number}") for number in range(3)]
    store.cancel_run(RUN, "enough")
    assert uuids(store.ended_elsewhere("fleet", limit=2)) == uuids(tasks[:2])
    store.told(tasks[0])
    assert uuids(store.ended_elsewhere("fleet")) == uuids(tasks[1:])


def test_a_task_whose_time_was_up_waits_for_its_judge(store: PersistenceAPI) -> None:
    task = hand_out(store, timeout_ms=1)
    eventually(store.reclaim)
    late = stored_task(store, task.uuid)
    assert (late.state, late.hold, late.epoch) == (TaskState.PENDING, TaskHold.TIMEOUT, task.epoch + 1)
    assert uuids(store.find_tasks(TaskFilter(state=TaskState.PENDING, hold=TaskHold.TIMEOUT))) == [task.uuid]
    assert store.reclaim() == 0
    assert store.finish([an_outcome(a_waiting_step("s", n=1), late, TaskState.FAILED)]) == [True]
    assert uuids(store.ended_elsewhere("agent")) == [task.uuid]


# -- another attempt ------------------------------------------------------------------------------------------


def test_another_attempt_is_made_elsewhere_too(store: PersistenceAPI) -> None:
    task = hand_out(store, timeout_ms=LONG, patience_ms=LONG)
    assert store.requeue(task, LONG, NO)
    again = stored_task(store, task.uuid)
    assert (again.state, again.hold, again.via) == (TaskState.PENDING, "elsewhere", task.via)
    assert (again.failures, again.epoch, again.error) == (1, task.epoch + 1, NO)
    assert LONG / 2 < again.not_before - store.now() <= LONG
    for time in (again.deadline, again.lease_until):  # they begin with the attempt
        assert 1.5 * LONG < time - store.now() <= 2 * LONG
    assert store.next_due() is None  # nothing that a worker could claim
    assert not store.requeue(task, 0, NO)
    assert answered(store, again)


def test_another_attempt_after_its_time_was_up(store: PersistenceAPI) -> None:
    task = hand_out(store, timeout_ms=1)
    eventually(store.reclaim)
    late = stored_task(store, task.uuid)
    assert store.requeue(late, 0, NO)
    again = stored_task(store, task.uuid)
    assert (again.hold, again.failures) == ("elsewhere", 1)
    assert again.deadline >= late.deadline
    assert store.ended_elsewhere("agent") == []


# -- pause ----------------------------------------------------------------------------------------------------


def test_it_goes_on_while_its_run_is_paused_and_the_answer_waits(store: PersistenceAPI) -> None:
    task = hand_out(store)
    assert store.pause_run(RUN, "lunch")
    assert standing(store, task) == (TaskState.PENDING, "elsewhere")
    assert answered(store, task)
    assert store.get_due_runs() == []
    assert store.unpause_run(RUN)
    assert store.get_due_runs() == [RUN]


def test_an_attempt_that_fails_while_the_run_is_paused_waits_for_the_run(store: PersistenceAPI) -> None:
    task = hand_out(store, timeout_ms=LONG)
    store.pause_run(RUN, "lunch")
    assert store.requeue(task, 0, NO)
    assert standing(store, task) == (TaskState.PENDING, TaskHold.PAUSED)
    assert store.find_tasks(TaskFilter(hold="elsewhere")) == []
    store.unpause_run(RUN)
    again = stored_task(store, task.uuid)
    assert (again.hold, again.failures) == ("elsewhere", 1)
    assert LONG / 2 < again.deadline - store.now() <= LONG


# -- concurrency ----------------------------------------------------------------------------------------------


@of_stores(offers="concurrency")
def test_they_take_their_turn(store: PersistenceAPI) -> None:
    key = {"concurrency_key": "k", "concurrency_limit": 1, "timeout_ms": LONG, "patience_ms": LONG}
    first, second = hand_out(store, step_id="s1", **key), hand_out(store, step_id="s2", **key)
    assert (first.hold, second.hold) == ("elsewhere", TaskHold.CONCURRENCY)
    assert second.deadline == second.lease_until == 0
    assert store.claim_tasks(["F"], limit=5, any_event=True) == []
    assert answered(store, first)
    promoted = stored_task(store, second.uuid)
    assert promoted.hold == "elsewhere"
    assert LONG / 2 < promoted.deadline - store.now() <= LONG
    assert LONG / 2 < promoted.lease_until - store.now() <= LONG


@of_stores(offers="concurrency")
def test_a_failed_attempt_keeps_its_turn(store: PersistenceAPI) -> None:
    key = {"concurrency_key": "k", "concurrency_limit": 1}
    first, second = hand_out(store, step_id="s1", **key), hand_out(store, step_id="s2", **key)
    assert store.requeue(first, 0, NO)
    assert [stored_task(store, each.uuid).hold for each in (first, second)] == ["elsewhere", "concurrency"]


@of_stores(offers="concurrency")
def test_a_task_that_waits_for_its_turn_is_paused_and_waits_again(store: PersistenceAPI) -> None:
    key = {"concurrency_key": "k", "concurrency_limit": 1}
    first, second = hand_out(store, step_id="s1", **key), hand_out(store, step_id="s2", **key)
    store.pause_run(RUN, "lunch")
    assert [stored_task(store, each.uuid).hold for each in (first, second)] == ["elsewhere", "paused"]
    store.unpause_run(RUN)
    assert [stored_task(store, each.uuid).hold for each in (first, second)] == ["elsewhere", "concurrency"]


@of_stores(offers="concurrency")
def test_elsewhere_and_here_share_a_key(store: PersistenceAPI) -> None:
    key = {"concurrency_key": "k", "concurrency_limit": 1}
    there = hand_out(store, step_id="s1", **key)
    store.commit(IterationChanges(created_tasks=[a_task("here", **key)]))
    assert store.claim_task(["F"]) is None
    assert answered(store, there)
    assert claimed(store).uuid == "here"


# -- handing over ---------------------------------------------------------------------------------------------


def test_a_claimed_task_is_handed_over(store: PersistenceAPI) -> None:
    store.save_task(a_task(timeout_ms=LONG))
    task = begun(store, lock_ms=LONG)
    assert store.hand_over(task, "agent:researcher", {"channel": "c"})
    found = stored_task(store)
    assert (found.state, found.hold, found.via) == (TaskState.PENDING, "elsewhere", "agent:researcher")
    assert (found.bridge, found.owner, found.last_owner) == ({"channel": "c"}, "", "worker")
    assert (found.epoch, found.started, found.lock_until, found.lease_until) == (task.epoch + 1, 0, 0, 0)
    assert LONG / 2 < found.deadline - store.now() <= LONG
    assert store.claim_task(["F"]) is None
    assert uuids(store.find_tasks(TaskFilter(hold="elsewhere", via="agent"))) == ["t"]


@pytest.mark.parametrize("holder", ["new", "old"])
def test_only_its_holder_hands_a_task_over(store: PersistenceAPI, holder: str) -> None:
    store.save_task(a_task())
    stale = claimed(store, "old")
    store.release_tasks("old", died=True)
    fresh = claimed(store, holder)
    assert not store.hand_over(stale, "agent:x")
    assert not store.hand_over(a_task("missing", owner=holder), "agent:x")
    assert store.hand_over(fresh, "agent:x")
    assert not store.hand_over(fresh, "agent:x")
    assert not store.renew_task(fresh, LONG)


# -- who is asked next ----------------------------------------------------------------------------------------


def test_whoever_does_not_answer_in_time_is_found(store: PersistenceAPI) -> None:
    patient = hand_out(store, "human:finance", "s1", patience_ms=LONG)
    hand_out(store, "human:finance", "s2")
    hasty = hand_out(store, "human:finance", "s3", patience_ms=1)
    assert uuids(eventually(store.get_unanswered)) == [hasty.uuid]
    assert LONG / 2 < patient.lease_until - store.now() <= LONG
    assert store.reclaim() == 0  # that is no lease of a worker


def test_the_next_one_is_asked(store: PersistenceAPI) -> None:
    task = hand_out(store, "human:finance", patience_ms=1)
    asked = replace(task, bridge={"asked": ["finance"]}, patience_ms=0)
    assert store.ask_next(asked, "human:boss")
    found = stored_task(store, task.uuid)
    assert (found.via, found.bridge, found.epoch) == ("human:boss", {"asked": ["finance"]}, task.epoch)
    assert (found.patience_ms, found.lease_until, found.hold) == (0, 0, "elsewhere")
    assert not store.ask_next(asked, "human:boss")
    assert store.get_unanswered() == []
    assert not answered(store, task)  # it was read before
    assert answered(store, found)
    assert not store.ask_next(found, "human:finance")


def test_nobody_is_asked_for_an_attempt_that_is_over(store: PersistenceAPI) -> None:
    over = hand_out(store, "human:finance", patience_ms=1)
    assert store.requeue(over, 0, NO)
    assert not store.ask_next(over, "human:boss")
    assert stored_task(store, over.uuid).via == "human:finance"


def test_the_next_one_may_have_patience_too(store: PersistenceAPI) -> None:
    task = hand_out(store, "human:finance", patience_ms=1)
    assert store.ask_next(replace(task, patience_ms=LONG), "human:boss")
    assert LONG / 2 < stored_task(store, task.uuid).lease_until - store.now() <= LONG


# -- rings ----------------------------------------------------------------------------------------------------


def commits(store: PersistenceAPI) -> Callable[[], object]:
    return lambda: hand_out(store)


def saves(store: PersistenceAPI) -> Callable[[], object]:
    return lambda: store.save_task(a_task(hold="elsewhere", via="agent:x"))


def hands_over(store: PersistenceAPI) -> Callable[[], object]:
    store.save_task(a_task())
    task = claimed(store)
    return lambda: store.hand_over(task, "agent:x")


def requeues(store: PersistenceAPI) -> Callable[[], object]:
    task = hand_out(store)
    return lambda: store.requeue(task, 0, NO)


def asks(store: PersistenceAPI) -> Callable[[], object]:
    task = hand_out(store, "human:x")
    return lambda: store.ask_next(task, "human:y")


def answers(store: PersistenceAPI) -> Callable[[], object]:
    task = hand_out(store)
    return lambda: answered(store, task)


def cancels(store: PersistenceAPI) -> Callable[[], object]:
    hand_out(store)
    return lambda: store.cancel_run(RUN, "enough")


def goes_on(store: PersistenceAPI) -> Callable[[], object]:
    task = hand_out(store)
    return lambda: go_on_by_hand(store, task)


@pytest.mark.parametrize(
    ("topic", "prepare"),
    [
        (ELSEWHERE_TOPIC, commits),
        (ELSEWHERE_TOPIC, saves),
        (ELSEWHERE_TOPIC, hands_over),
        (ELSEWHERE_TOPIC, requeues),
        (ELSEWHERE_TOPIC, asks),
        (RUNS_TOPIC, answers),
        (CANCEL_TOPIC, cancels),
        (CANCEL_TOPIC, goes_on),
    ],
)
def test_it_rings(
    store: PersistenceAPI, topic: str, prepare: Callable[[PersistenceAPI], Callable[[], object]]
) -> None:
    act = prepare(store)
    with store.subscribe([topic]) as subscription:
        act()
        assert subscription.wait(SECONDS)


@of_stores(offers="retention")
def test_a_run_is_kept_until_the_other_side_knows_that_it_is_over_or_nobody_came_for_a_day(
    store: PersistenceAPI,
) -> None:
    """Else an agent would work on, and be paid, for a run that nobody knows of."""
    told, forgotten = hand_out(store, step_id="told"), WorkflowId("run-2")
    store.commit(
        IterationChanges(
            run=a_run(forgotten, state="canceled", ended=wall_ms() - 90_000_000),
            new_run=True,
            created_tasks=[a_task("t-2", workflow_id=forgotten, via="agent:x", state="canceled")],
        )
    )
    assert store.cancel_run(RUN, "no")
    assert store.delete_runs(wall_ms() + 1000, 10) == 1
    assert [store.get_run(forgotten), standing(store, told)] == [None, ("canceled", "elsewhere")]
    assert store.told(told)
    assert store.delete_runs(wall_ms() + 1000, 10) == 1
    assert store.get_run(RUN) is None
