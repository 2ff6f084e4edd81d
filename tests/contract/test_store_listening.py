"""What is committed notifies, for subscriptions of this store and of others in the process.

A notification is a hint: a subscription may also wake for nothing, so only that it wakes is promised.
Between processes, see the tests of the notifier; a store without a wire of its own leaves that to polling.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from store_records import (
    LONG,
    RUN,
    SECONDS,
    OpenStore,
    a_log,
    a_mark,
    a_task,
    a_waiting_step,
    an_outcome,
    begin,
    begun,
    claimed,
    eventually,
    stored_task,
    wait_outside,
)

from afl.kernel.errors import InputError
from afl.kernel.notify.subscription import Subscription
from afl.kernel.presence import Life
from afl.runtime.entities import RunnerState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.stores.store_base import StoreBase

Act = Callable[[], object]
Prepare = Callable[[PersistenceAPI], Act]


def a_task_is_saved(store: PersistenceAPI) -> Act:
    return lambda: store.save_task(a_task())


def a_task_is_committed(store: PersistenceAPI) -> Act:
    return lambda: store.commit(IterationChanges(created_tasks=[a_task()]))


def a_claim_is_returned(store: PersistenceAPI) -> Act:
    store.save_task(a_task())
    task = claimed(store)
    return lambda: store.return_tasks([task])


def a_task_is_requeued(store: PersistenceAPI) -> Act:
    store.save_task(a_task())
    task = claimed(store)
    return lambda: store.requeue(task, 0, {"message": "no"})


def an_owner_lets_go(store: PersistenceAPI) -> Act:
    store.save_task(a_task())
    claimed(store)
    return lambda: store.release_tasks("worker", died=False)


def a_lease_ends(store: PersistenceAPI) -> Act:
    store.save_task(a_task())
    claimed(store, lease_ms=1)
    return lambda: eventually(store.reclaim)


def a_run_with_tasks_is_unpaused(store: PersistenceAPI) -> Act:
    begin(store)
    store.save_task(a_task())
    assert store.pause_run(RUN, "why")
    return lambda: store.unpause_run(RUN)


def work_is_finished(store: PersistenceAPI) -> Act:
    wait_outside(store)
    outcome = an_outcome(a_waiting_step(n=1), claimed(store), out=1)
    return lambda: store.finish([outcome])


def a_mark_is_saved(store: PersistenceAPI) -> Act:
    return lambda: store.save_event(a_mark("m"))


def a_run_is_submitted(store: PersistenceAPI) -> Act:
    return lambda: begin(store, owner="")


def a_run_is_over(store: PersistenceAPI) -> Act:
    run = begin(store)
    run.state, run.owner = RunnerState.COMPLETED, ""
    return lambda: store.commit(IterationChanges(run=run))


def a_run_is_paused(store: PersistenceAPI) -> Act:
    begin(store)
    return lambda: store.pause_run(RUN, "why")


def a_run_is_canceled(store: PersistenceAPI) -> Act:
    begin(store)
    return lambda: store.cancel_run(RUN, "why")


def a_deadline_passes(store: PersistenceAPI) -> Act:
    store.save_task(a_task(timeout_ms=1))
    begun(store)
    return lambda: eventually(store.reclaim)


def hear_the_connection(store: PersistenceAPI, subscription: Subscription) -> None:
    """A connection to a server notifies every subscription when it is made; what follows is of a commit."""
    assert isinstance(store, StoreBase)
    assert store.notifier.connected(SECONDS)
    subscription.wait(0)


@pytest.mark.parametrize(
    ("topic", "prepare"),
    [
        ("tasks:default", a_task_is_saved),
        ("tasks:default", a_task_is_committed),
        ("tasks:default", a_claim_is_returned),
        ("tasks:default", a_task_is_requeued),
        ("tasks:default", an_owner_lets_go),
        ("tasks:default", a_lease_ends),
        ("tasks:default", a_run_with_tasks_is_unpaused),
        ("runs", work_is_finished),
        ("runs", a_mark_is_saved),
        ("runs", a_run_is_submitted),
        ("runs", a_run_with_tasks_is_unpaused),
        (f"run:{RUN}", a_run_is_over),
        (f"run:{RUN}", a_run_is_paused),
        (f"run:{RUN}", a_run_is_canceled),
        ("cancel", a_run_is_canceled),
        ("cancel", a_deadline_passes),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_what_is_committed_rings(open_store: OpenStore, topic: str, prepare: Prepare) -> None:
    store, other = open_store(), open_store()
    act = prepare(store)
    with store.subscribe([topic, "unrelated"]) as here, other.subscribe([topic]) as there:
        for opened, subscription in ((store, here), (other, there)):
            hear_the_connection(opened, subscription)
        act()
        assert topic in here.wait(SECONDS)
        assert topic in there.wait(SECONDS)


def test_a_followed_log_rings(store: PersistenceAPI) -> None:
    with store.subscribe([f"logs:{RUN}"]) as subscription:
        store.save_logs([a_log(runner_id=RUN)])
        assert subscription.wait(SECONDS) == {f"logs:{RUN}"}
        store.save_log(a_log("l2", runner_id=RUN))
        assert subscription.wait(SECONDS) == {f"logs:{RUN}"}


def test_a_name_that_cannot_be_a_topic_refuses_nothing(store: PersistenceAPI) -> None:
    """The ring is a hint; what is stored does not depend on it."""
    store.save_task(a_task(task_list_name="x" * 500))
    assert stored_task(store).task_list_name == "x" * 500
    store.commit(IterationChanges(created_tasks=[a_task("t2", task_list_name="tab\t")]))
    assert store.claim_tasks(["F"], "tab\t", limit=1)[0].uuid == "t2"


def test_a_doorbell_of_no_known_kind_is_refused(store: PersistenceAPI) -> None:
    store.doorbell = "carrier pigeon"
    with pytest.raises(InputError, match="carrier pigeon"):
        store.subscribe(["runs"])


def test_a_store_without_other_processes_still_rings(store: PersistenceAPI) -> None:
    store.doorbell = "none"
    with store.subscribe(["tasks:default"]) as subscription:
        store.save_task(a_task())
        assert subscription.wait(SECONDS) == {"tasks:default"}


# -- who and when ---------------------------------------------------------------------------------------------


def test_this_process_lives_and_has_words(store: PersistenceAPI) -> None:
    assert store.life(store.owner_id) is Life.ALIVE
    assert "process" in store.describe(store.owner_id)
    assert store.life("nobody") is not Life.ALIVE
    assert "nobody" in store.describe("nobody")


def test_the_clock_of_the_store_is_that_of_its_leases(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    before = store.now()
    task = claimed(store, lease_ms=LONG)
    assert before + LONG <= task.lease_until <= store.now() + LONG
    eventually(lambda: store.now() > before)


def test_what_a_store_can_be_set_to(store: PersistenceAPI) -> None:
    assert (store.lease_ms, store.max_deliveries, store.doorbell) == (60_000, 5, "auto")
    assert store.run_lease_ms == 10_000
    assert store.capabilities <= {"concurrency", "schedules", "budgets", "retention"}
