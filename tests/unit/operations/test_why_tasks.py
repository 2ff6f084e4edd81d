"""Why a task is not done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from operated_store import CHAIN, HOUR, MINUTE, begin, double, program_of, refuse, serve, task_of
from support.lives import Lives

from afl.kernel.clock import wall_ms
from afl.kernel.ids import random_id
from afl.operations.reason.reasons import Outlook, Reason
from afl.operations.reason.why import why
from afl.operations.run import control
from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI, TaskFilter


def policy(mixin: str) -> str:
    """The chain, with a policy on its first step."""
    return CHAIN.replace("a = Double(n = $.n)", f"a = Double(n = $.n) with {mixin}")


def reason_of(store: PersistenceAPI, task: TaskDefinition) -> Reason:
    return why(store, task.uuid)


def pending(store: PersistenceAPI, source: str = CHAIN) -> TaskDefinition:
    return task_of(store, begin(store, source))


def claimed(store: PersistenceAPI, lease_ms: int = HOUR) -> TaskDefinition:
    task = store.claim_task(["t.Double"], lease_ms=lease_ms)
    assert task is not None
    return task


def test_over(store: MemoryStore) -> None:
    run = begin(store, Double=double, Half=refuse)
    assert reason_of(store, task_of(store, run, "t.Double")).code == "task-completed"
    failed = reason_of(store, task_of(store, run, "t.Half"))
    assert (failed.code, failed.action) == ("task-failed", f"Fix the cause, then: afl retry {run}/0/b")
    assert "6 is refused" in failed.sentence
    other = begin(store)
    control.cancel(store, other)
    assert reason_of(store, task_of(store, other)).code == "task-canceled"
    store.save_task(replace(task_of(store, other), state="ignored"))
    assert reason_of(store, task_of(store, other)).code == "task-ignored"


def test_nobody_ever_served_it(store: MemoryStore) -> None:
    task = pending(store)
    reason = reason_of(store, task)
    assert (reason.code, reason.outlook) == ("task-unserved", Outlook.STANDS)
    assert reason.sentence == "no live server serves t.Double; none ever did in this store."
    serve(store, "t.Doubel")
    assert reason_of(store, task).sentence.endswith("none ever did in this store, but one serves t.Doubel.")


def test_a_facet_of_the_same_program_is_no_misspelled_name(store: MemoryStore) -> None:
    task = pending(store, CHAIN.replace("Half", "Doubled"))
    serve(store, "t.Doubled")
    reason = reason_of(store, task)
    assert reason.sentence == "no live server serves t.Double; none ever did in this store."
    assert reason.action == "Start an agent for it: afl agent MODULE"


def test_who_served_it_last(lives: Lives) -> None:
    first = lives.next()
    serve(first, "t.Double", silent_ms=5 * HOUR, server_name="host-1")
    serve(first, "Double", silent_ms=3 * HOUR)
    second = lives.next()
    reason = reason_of(second, pending(second))
    assert (reason.code, reason.sentence) == (
        "task-unserved",
        "no live server serves t.Double; last seen 3 h ago on host-7.",
    )


def test_a_name_that_is_almost_right_comes_before_who_served_it_last(lives: Lives) -> None:
    serve(lives.next(), "t.Double", silent_ms=3 * HOUR)
    now = lives.next()
    serve(now, "t.Doubel")
    reason = reason_of(now, pending(now))
    assert reason.sentence.endswith("last seen 3 h ago on host-7, but one serves t.Doubel.")
    assert reason.action.startswith("Correct the name in @handler('t.Doubel')")


def test_an_agent_for_another_list_is_started_there(store: MemoryStore) -> None:
    task = pending(store, policy('TaskList("gpu")'))
    assert reason_of(store, task).action == "Start an agent for it: afl agent MODULE --task-list gpu"


def test_another_list(store: MemoryStore) -> None:
    task = pending(store, policy('TaskList("gpu")'))
    serve(store, "t.Double")
    reason = reason_of(store, task)
    assert (reason.code, reason.outlook) == ("task-other-list", Outlook.STANDS)
    assert reason.sentence == "it waits on list gpu; servers that serve t.Double serve list default."
    serve(store, "t.Double", task_list="")
    assert reason_of(store, task).code == "task-ready"


def test_full_servers(store: MemoryStore) -> None:
    begin(store)
    task = pending(store)
    claimed(store)
    serve(store, "t.Double", capacity=1)
    reason = reason_of(store, task)
    assert (reason.code, reason.outlook) == ("task-servers-full", Outlook.MOVES)
    assert (
        "the only live server that serves t.Double is full: host-7 1 of 1; it has waited" in reason.sentence
    )
    serve(store, "Double", capacity=1, server_name="host-8")
    assert "all 2 live servers that serve t.Double are full: host-7 1 of 1, host-8 1 of 1" in (
        reason_of(store, task).sentence
    )


@pytest.mark.parametrize("fields", [{"handlers": ["Double"]}, {"handlers": [], "any_event": True}])
def test_about_to_be_claimed(store: MemoryStore, fields: dict[str, Any]) -> None:
    task = pending(store)
    handlers = fields.pop("handlers")
    serve(store, *handlers, **fields)
    reason = reason_of(store, task)
    assert reason.code == "task-ready"
    assert reason.sentence == (
        "afl-agent on host-7 serves t.Double, works on 0 of 5 tasks, and is about to claim it."
    )


def test_system_tasks_are_for_runners(store: MemoryStore) -> None:
    task = TaskDefinition(random_id(), "afl:resume", "", "", "", "")
    store.save_task(task)
    serve(store, "t.Double", any_event=True)
    assert reason_of(store, task).code == "task-unserved"
    serve(store, "afl:execute")
    assert reason_of(store, task).code == "task-ready"


def test_the_process_that_runs_the_workflow_may_take_it(store: MemoryStore) -> None:
    run = begin(store)
    assert store.take_run(run, lease_ms=HOUR) is not None  # type: ignore[arg-type]
    reason = reason_of(store, task_of(store, run))
    assert reason.code == "task-local"
    assert "(this one) runs the workflow" in reason.sentence


def test_a_retry_that_is_due_later(store: MemoryStore) -> None:
    pending(store, policy("Retry(attempts = 3, backoff = 60000)"))
    task = claimed(store)
    assert store.requeue(task, MINUTE, {"message": "no answer"})
    reason = reason_of(store, task)
    assert (reason.code, reason.outlook) == ("task-delayed", Outlook.MOVES)
    assert "t.Double is tried again at " in reason.sentence
    assert "(attempt 2 of 3); it failed with: no answer" in reason.sentence


def test_concurrency(store: MemoryStore) -> None:
    source = policy('Concurrency("tenant-4", limit = 2)')
    tasks = [pending(store, source) for _ in range(3)]
    reason = reason_of(store, tasks[-1])
    first, second = (task.workflow_id for task in tasks[:2])
    assert (reason.code, reason.sentence) == (
        "task-concurrency",
        f"Concurrency(tenant-4) is at 2 of 2, held by a of run {first}, a of run {second}.",
    )
    assert reason_of(store, tasks[0]).code == "task-unserved"


def test_rate(store: MemoryStore) -> None:
    source = policy('Rate("api", perMinute = 2)')
    tasks = [pending(store, source) for _ in range(3)]
    assert reason_of(store, tasks[0]).code == "task-unserved"
    behind = reason_of(store, tasks[1])
    assert behind.sentence == (
        "t.Double waits for the rate limit api (2 per minute); it is the turn of a of run "
        f"{tasks[0].workflow_id}, which nobody starts."
    )
    assert (behind.outlook, behind.cause.code) == (Outlook.STANDS, "task-unserved")
    serve(store, "t.Double")
    assert reason_of(store, tasks[1]).sentence.endswith("; tasks before it come first.")
    claimed(store)
    second, third = (reason_of(store, task) for task in tasks[1:])
    assert (second.code, second.outlook) == ("task-rate", Outlook.MOVES)
    words = "t.Double waits for the rate limit api (2 per minute)"
    assert second.sentence.startswith(f"{words}; it may start at ")
    assert (third.code, third.sentence) == ("task-rate", f"{words}; tasks before it come first.")


def test_paused(store: MemoryStore) -> None:
    run = begin(store)
    control.pause(store, run, by="ada")
    reason = reason_of(store, task_of(store, run))
    assert (reason.code, reason.outlook) == ("task-paused", Outlook.STANDS)
    assert (reason.sentence, reason.action) == (
        "its run is paused: paused by operator ada.",
        f"Continue it: afl unpause {run}",
    )


def test_poisoned(lives: Lives) -> None:
    first = lives.next()
    task = pending(first)
    first.start_tasks([claimed(first)])
    second = lives.next()
    second.max_deliveries = 1
    second.reclaim()
    reason = reason_of(second, task)
    assert reason.code == "task-poisoned"
    assert reason.sentence == (
        "t.Double is given up, since its worker died while working on it, the last was life-1; "
        "its step fails when a server is started: none is alive to do it."
    )
    assert reason.outlook is Outlook.STANDS
    serve(second, "t.Double")
    assert reason_of(second, task).outlook is Outlook.MOVES
    assert reason_of(second, task).sentence.endswith("its step fails at the next sweep.")


def test_timed_out(store: MemoryStore) -> None:
    pending(store, policy("Timeout(60000)"))
    store.start_tasks([claimed(store)])
    task = store.find_tasks(TaskFilter(state="running"))[0]
    assert task.deadline > store.now()
    late = replace(task, deadline=store.now() - 1)
    store.save_task(late)
    overdue = reason_of(store, task)
    assert overdue.code == "task-overdue"
    assert "it is past its deadline of " in overdue.sentence
    assert overdue.outlook is Outlook.STANDS
    store.reclaim()
    reason = reason_of(store, task)
    assert reason.code == "task-timeout"
    assert "t.Double ran longer than its 1 min" in reason.sentence


def test_locked(store: MemoryStore) -> None:
    task = pending(store)
    assert store.acquire_lock(f"runner:task:{task.uuid}", HOUR, owner=store.owner_id)
    reason = reason_of(store, task)
    assert reason.code == "task-locked"
    assert "its lock is held by process" in reason.sentence


def test_behind_another_task_of_its_step(store: MemoryStore) -> None:
    task = pending(store)
    second = replace(task, uuid=random_id())
    store.save_task(second)
    reason = reason_of(store, second)
    assert [each.code for each in reason.chain] == ["task-behind", "task-unserved"]
    assert reason_of(store, task).code == "task-unserved"


def test_running(store: MemoryStore) -> None:
    run = begin(store, policy("Timeout(3600000)"))
    task = claimed(store)
    store.start_tasks([task])
    server = serve(store, "t.Double", server_name="runner-2")
    details = {"progress": 0.4}
    log = LogDefinition(random_id(), 1, run, task.step_id, message="parsing", details=details)
    store.save_logs([log])
    reason = reason_of(store, task)
    assert (reason.code, reason.outlook) == ("task-running", Outlook.MOVES)
    assert "lease held by afl-agent on runner-2 until " in reason.sentence
    assert "; 40% parsing; deadline " in reason.sentence
    assert why(store, server.uuid).code == "server-working"


def test_running_says_what_was_logged_and_how_often_it_was_tried(store: MemoryStore) -> None:
    run = begin(store)
    task = claimed(store, lease_ms=0)
    store.release_tasks(store.owner_id, died=False)
    task = claimed(store, lease_ms=0)
    store.save_logs([LogDefinition(random_id(), 1, run, task.step_id, message="hello")])
    sentence = reason_of(store, task).sentence
    assert "; it says: hello; attempt 2." in sentence
    assert " until " not in sentence


def test_running_for_long_without_progress_and_timeout(store: MemoryStore) -> None:
    run = begin(store)
    task = claimed(store)
    store.start_tasks([task])
    assert reason_of(store, task).sentence.count(";") == 0
    running = store.find_tasks(TaskFilter(state="running"))[0]
    store.save_task(replace(running, started=wall_ms() - 3 * MINUTE))
    assert reason_of(store, task).sentence.endswith(
        "; it has been running for 3 min; it has reported no progress; it has no Timeout."
    )
    said = LogDefinition(random_id(), 1, run, task.step_id, message="hello", time=wall_ms() - 2 * MINUTE)
    store.save_logs([said])
    assert "; it says: hello (2 min ago); it has no Timeout." in reason_of(store, task).sentence


def test_running_in_a_process_that_hangs(store: MemoryStore) -> None:
    begin(store)
    task = claimed(store)
    server = serve(store, "t.Double", silent_ms=HOUR)
    reason = reason_of(store, task)
    assert "whose process is alive but does not ping: it is blocked or stopped" in reason.sentence
    assert reason.action == f"See what that process does, or restart it: afl why {server.uuid}"


def test_its_owner_died(lives: Lives) -> None:
    first = lives.next()
    task = pending(first)
    claimed(first)
    second = lives.next()
    reason = reason_of(second, task)
    assert reason.code == "task-owner-dead"
    assert reason.sentence == (
        "life-1, which had it, died; it is delivered again when a server is started: none is alive now."
    )
    assert "afl agent MODULE" in reason.action
    assert reason.outlook is Outlook.STANDS
    assert why(second, task.workflow_id).outlook is Outlook.STANDS
    serve(second, "t.Other")
    chain = reason_of(second, task)
    assert [each.code for each in chain.chain] == ["task-owner-dead", "task-unserved"]
    assert chain.outlook is Outlook.STANDS
    serve(second, "t.Double")
    again = reason_of(second, task)
    assert again.sentence.endswith("it is delivered again within seconds.")
    assert (again.action, again.outlook) == ("Wait.", Outlook.MOVES)


def test_its_lease_ended(unseen: Lives) -> None:
    first = unseen.next()
    task = pending(first)
    claimed(first)
    reason = reason_of(unseen.next(), task)
    assert reason.code == "task-lease-ended"
    assert "the lease of life-1 ended at " in reason.sentence
    assert reason.outlook is Outlook.STANDS


def asleep(store: MemoryStore, source: str) -> str:
    session = Evaluator(store).begin(program_of(source), {"n": 3})
    session.advance()
    session.close()
    return session.run.workflow_id


def test_a_step_that_sleeps(store: MemoryStore) -> None:
    source = CHAIN.replace("a = Double(n = $.n)", "z = sys.Sleep(ms = 3600000)\n    a = Double(n = z.ms)")
    reason = why(store, asleep(store, source))
    assert [each.code for each in reason.chain] == ["run-waits", "step-sleeps", "task-timer"]
    assert "sys.Sleep sleeps until " in reason.cause.sentence
    assert reason.outlook is Outlook.MOVES
    due = asleep(store, source.replace("3600000", "0"))
    assert "; it continues when a server is started: none is alive" in why(store, due).cause.sentence
