"""What nobody works on any more is taken away: leases that ended, deadlines that passed, and how leases are kept.

Any process may sweep. Whoever lost something keeps its old epoch, and with that nothing it writes has an effect.
"""

from __future__ import annotations

import pytest
from store_records import (
    LONG,
    RUN,
    Everything,
    a_task,
    a_waiting_step,
    an_outcome,
    begin,
    begun,
    claimed,
    eventually,
    stored_run,
    stored_task,
    wait_outside,
)

from afl.kernel.errors import FencedError, HeldError
from afl.runtime.entities import TaskHold, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.recovery.sweep import judge


def die(store: PersistenceAPI, owner: str) -> None:
    """An owner claims the next task, begins it, and is not heard of again."""
    task = store.claim_task(["F"], owner=owner, lease_ms=1)
    assert task is not None
    store.start_tasks([task])
    eventually(store.reclaim)


# -- deaths ---------------------------------------------------------------------------------------------------


def test_who_had_a_task_last_is_remembered(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    die(store, "first")
    assert stored_task(store).last_owner == "first"
    task = claimed(store, "second")
    assert (task.owner, task.last_owner) == ("second", "first")
    store.release_tasks("second", died=False)
    assert stored_task(store).last_owner == "second"


def test_a_task_that_too_many_did_not_renew_is_poisoned(store: PersistenceAPI) -> None:
    store.max_deliveries = 3
    store.save_task(a_task(step_id="s"))
    for number in range(3):
        assert stored_task(store).hold == ""
        die(store, f"worker-{number}")
    task = stored_task(store)
    assert (task.state, task.hold, task.expiries, task.deliveries) == (
        TaskState.PENDING,
        TaskHold.POISONED,
        3,
        3,
    )
    assert (task.owner, task.last_owner, task.lease_until) == ("", "worker-2", 0)
    assert store.claim_task(["F"]) is None
    assert [each.uuid for each in store.find_tasks(TaskFilter(hold=TaskHold.POISONED))] == ["t"]
    assert store.reclaim() == 0


def test_at_most_once_is_one_delivery(store: PersistenceAPI) -> None:
    store.max_deliveries = 1
    store.save_task(a_task())
    die(store, "worker")
    assert (stored_task(store).hold, stored_task(store).expiries) == (TaskHold.POISONED, 1)
    assert store.claim_task(["F"]) is None


def test_deaths_and_expired_leases_are_counted_apart_and_poison_together(store: PersistenceAPI) -> None:
    store.max_deliveries = 2
    store.save_task(a_task(step_id="s"))
    die(store, "worker-1")
    store.start_tasks([claimed(store)])
    assert store.release_tasks("worker", died=True) == 1
    task = stored_task(store)
    assert (task.hold, task.deaths, task.expiries) == (TaskHold.POISONED, 1, 1)
    evaluator = Evaluator(store)
    judge(evaluator)
    message = (stored_task(store).error or {})["message"]
    assert "its worker died while working on it and its lease expired once without being renewed" in message


def test_leases_that_expired_while_the_store_was_away_are_left_alone(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    store.claim_task(["F"], owner="worker", lease_ms=1)
    eventually(lambda: store.now() > stored_task(store).lease_until)
    assert store.reclaim(expired=False) == 0
    assert store.reclaim() == 1


def test_only_deaths_poison(store: PersistenceAPI) -> None:
    store.max_deliveries = 2
    store.save_task(a_task())
    for _ in range(5):
        claimed(store)
        assert store.release_tasks("worker", died=False) == 1
    assert store.return_tasks([claimed(store)]) == 1
    assert store.requeue(claimed(store), 0, {"message": "no"})
    task = stored_task(store)
    assert (task.hold, task.deaths, task.deliveries) == ("", 0, 6)


def test_a_death_that_is_told_poisons_too(store: PersistenceAPI) -> None:
    store.max_deliveries = 2
    store.save_task(a_task())
    for expected in ("", TaskHold.POISONED):
        store.start_tasks([claimed(store)])
        assert store.release_tasks("worker", died=True) == 1
        assert stored_task(store).hold == expected


def test_in_company_only_the_first_death_counts(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    for _ in range(3):
        claimed(store)
        assert store.release_tasks("worker", died=True) == 1
    assert (stored_task(store).deaths, stored_task(store).deliveries) == (1, 3)


def test_at_most_once_counts_only_what_had_begun(store: PersistenceAPI) -> None:
    store.max_deliveries = 1
    store.save_task(a_task())
    claimed(store)
    assert store.release_tasks("worker", died=True) == 1
    assert (stored_task(store).deaths, stored_task(store).hold) == (0, "")


def test_a_poisoned_task_can_be_finished_by_the_sweep(store: PersistenceAPI) -> None:
    store.max_deliveries = 1
    wait_outside(store)
    die(store, "worker")
    outcome = an_outcome(a_waiting_step(n=1), stored_task(store, "task-s"), TaskState.FAILED)
    assert store.finish([outcome]) == [True]
    assert stored_task(store, "task-s").state == TaskState.FAILED


def test_five_may_die_by_default(store: PersistenceAPI) -> None:
    assert store.max_deliveries == 5


# -- deadlines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lease_ms", [0, LONG])
def test_a_task_past_its_deadline_is_taken_away(store: PersistenceAPI, lease_ms: int) -> None:
    wait_outside(store, timeout_ms=1)
    wait_outside(store, "s2", timeout_ms=LONG)
    late = begun(store, lease_ms=lease_ms, lock_ms=LONG)
    in_time = begun(store, lease_ms=lease_ms)
    assert eventually(store.reclaim) == 1
    task = stored_task(store, late.uuid)
    assert (task.state, task.hold, task.owner) == (TaskState.PENDING, TaskHold.TIMEOUT, "")
    assert (task.last_owner, task.lease_until, task.lock_until) == ("worker", 0, 0)
    assert (task.deaths, task.failures) == (0, 0)
    assert task.epoch > late.epoch
    assert stored_task(store, in_time.uuid) == in_time
    assert store.claim_task(["F"]) is None
    assert store.reclaim() == 0


def test_who_comes_after_the_deadline_is_refused(store: PersistenceAPI) -> None:
    wait_outside(store, timeout_ms=1)
    late = begun(store)
    eventually(store.reclaim)
    before = Everything.of(store)
    assert store.finish([an_outcome(a_waiting_step(n=1), late, out=1)]) == [False]
    assert not store.renew_task(late, LONG)
    assert not store.requeue(late, 0, {"message": "no"})
    assert Everything.of(store) == before


def test_who_comes_late_but_before_any_sweep_is_heard(store: PersistenceAPI) -> None:
    """A deadline takes work away when somebody looks; a result that is there is not thrown away."""
    wait_outside(store, timeout_ms=1)
    late = begun(store)
    eventually(lambda: store.now() > late.deadline)
    assert store.finish([an_outcome(a_waiting_step(n=1), late, out=1)]) == [True]
    assert store.reclaim() == 0


def test_renewing_does_not_move_a_deadline(store: PersistenceAPI) -> None:
    wait_outside(store, timeout_ms=LONG)
    task = begun(store)
    store.renew("worker", 2 * LONG)
    assert store.renew_task(task, 3 * LONG)
    assert stored_task(store, task.uuid).deadline == task.deadline


# -- runs -----------------------------------------------------------------------------------------------------


def test_a_run_whose_lease_ended_is_taken_away(store: PersistenceAPI) -> None:
    begin(store, owner="")
    begin(store, "lasting", owner="")
    old = store.take_run(RUN, lease_ms=1)
    assert old is not None
    assert eventually(store.reclaim) == 1
    run = stored_run(store)
    assert (run.owner, run.lease_until, run.epoch) == ("", 0, old.epoch + 1)
    with pytest.raises(FencedError):
        store.commit(IterationChanges(run=old, created_tasks=[a_task()]))
    assert store.get_all_tasks() == []
    assert store.reclaim() == 0


def test_a_run_whose_lease_lasts_stays_where_it_is(store: PersistenceAPI) -> None:
    begin(store)
    before = stored_run(store)
    assert store.reclaim() == 0
    assert stored_run(store) == before


# -- keeping ---------------------------------------------------------------------------------------------------


def test_renewing_extends_all_that_an_owner_holds(store: PersistenceAPI) -> None:
    begin(store)
    for name in ("s1", "s2", "s3", "s4"):
        wait_outside(store, name)
    me = store.owner_id
    leased, unleased = claimed(store, me), claimed(store, me, lease_ms=0)
    other = claimed(store, "somebody")
    run = stored_run(store)
    assert sorted(store.renew(me, 2 * LONG)) == sorted([(leased.uuid, 1), (unleased.uuid, 1)])
    assert stored_task(store, leased.uuid).lease_until >= leased.lease_until + LONG
    assert stored_task(store, unleased.uuid).lease_until == 0
    assert stored_task(store, other.uuid) == other
    assert stored_run(store).lease_until > run.lease_until
    with pytest.raises(HeldError):
        store.take_run(RUN, lease_ms=LONG)


def test_renewing_tells_what_was_lost(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2", "t3"):
        store.save_task(a_task(uuid))
    first, second = claimed(store), claimed(store)
    assert store.return_tasks([first]) == 1
    again = claimed(store)
    assert again.uuid == "t1"
    assert sorted(store.renew("worker", LONG)) == [("t1", again.epoch), ("t2", second.epoch)]
    second.state = TaskState.COMPLETED
    assert store.close_tasks([second]) == [True]
    assert store.renew("worker", LONG) == store.held_tasks("worker") == [("t1", again.epoch)]
    assert store.renew("nobody", LONG) == store.held_tasks("nobody") == []


def test_a_lease_does_not_get_shorter_by_renewing(store: PersistenceAPI) -> None:
    """One who works alone takes a long lease; a keeper that renews all by the usual one does not cut it short."""
    store.save_task(a_task())
    task = claimed(store, lease_ms=3 * LONG)
    store.renew("worker", 1)
    assert stored_task(store).lease_until >= task.lease_until
    assert store.renew_task(task, 1)
    assert stored_task(store).lease_until >= task.lease_until


def test_one_claim_is_extended(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2"):
        store.save_task(a_task(uuid))
    first, second = claimed(store), claimed(store)
    assert store.renew_task(first, 3 * LONG)
    assert stored_task(store, "t1").lease_until >= first.lease_until + LONG
    assert stored_task(store, "t2") == second


def test_a_claim_that_is_lost_is_not_extended(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    stale = claimed(store, "old")
    store.release_tasks("old", died=True)
    assert not store.renew_task(stale, LONG)
    fresh = claimed(store, "new")
    assert not store.renew_task(stale, LONG)
    assert stored_task(store) == fresh
    assert not store.renew_task(a_task("missing", owner="x"), LONG)
