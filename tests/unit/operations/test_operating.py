"""Operating runs: submit, list, wait, retry, cancel, pause, prune, and the lists of tasks and servers."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from operated_store import CHAIN, HOUR, begin, double, program_of, refuse, serve, task_of
from support.lives import Lives

from afl.kernel.clock import wall_ms
from afl.kernel.errors import CapabilityError, InputError
from afl.operations.program.submission import submit
from afl.operations.run import control, runs
from afl.operations.run.run_list import list_runs
from afl.operations.run.run_summary import get_budget, run_summary
from afl.operations.run.waiting import wait
from afl.operations.work.task_queue import list_tasks
from afl.operations.work.workers import servers
from afl.runtime.entities import HandledCount, LogDefinition, TaskDefinition, TaskState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.runner.registration import Registration, describe_server
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

GOOD = Handlers.of({"t.Double": double, "t.Half": double})


def test_a_submitted_run_is_begun_by_whoever_takes_it(store: MemoryStore) -> None:
    submitted = submit(store, program_of(CHAIN), {"n": 3}, task_list="night")
    assert (submitted.workflow, submitted.task_list) == ("t.Chain", "night")
    assert store.get_due_runs() == [submitted.run]
    assert store.get_steps_by_workflow(WorkflowId(submitted.run)) == []
    assert runs.resume(store, submitted.run, handlers=GOOD).outputs == {"m": 24}


def test_a_submission_that_does_not_fit_leaves_no_trace(store: MemoryStore) -> None:
    with pytest.raises(InputError, match="input 'n' is missing"):
        submit(store, program_of(CHAIN), {}, budget_usd=1.0)
    with pytest.raises(InputError, match="a budget of -1"):
        submit(store, program_of(CHAIN), {"n": 3}, budget_tokens=-1)
    assert store.find_runs() == []


def test_a_budget_is_there_before_the_run(store: MemoryStore) -> None:
    run = submit(store, program_of(CHAIN), {"n": 3}, budget_usd=2.5, budget_tokens=1000).run
    budget = get_budget(store, run)
    assert budget is not None
    assert (budget.usd, budget.tokens) == (2.5, 1000)
    control.pause(store, run)
    assert control.unpause(store, run, budget_usd=5).changed
    raised = get_budget(store, run)
    assert raised is not None and raised.usd == 5


def test_pages_of_runs(store: MemoryStore) -> None:
    made = [begin(store) for _ in range(5)]
    made.append(begin(store, Double=double, Half=refuse))
    first = list_runs(store, limit=4)
    assert [line.run for line in first.runs] == made[:1:-1]
    second = list_runs(store, limit=4, before=first.next)
    assert ([line.run for line in second.runs], second.next) == (made[1::-1], "")
    (failed,) = list_runs(store, state="failed").runs
    assert (failed.run, failed.workflow) == (made[-1], "t.Chain")
    assert "6 is refused" in failed.error
    assert list_runs(store, workflow="t.Other").runs == []


def test_finding_a_run_gives_its_inputs(store: MemoryStore) -> None:
    run = begin(store)
    assert runs.find(store, run[:-2]).inputs == {"n": 3}


def test_many_runs_of_one_beginning(store: MemoryStore) -> None:
    shared = begin(store)[:4]
    for _ in range(6):
        begin(store)
    with pytest.raises(InputError, match=f"more than 5 runs start with {shared}"):
        runs.find(store, shared)


def test_pause_and_unpause(store: MemoryStore) -> None:
    run = begin(store)
    paused = control.pause(store, run[:20], by="ada")
    assert (paused.run, paused.changed, paused.state) == (run, True, "paused")
    assert store.claim_task(["t.Double"]) is None
    again = control.pause(store, run)
    assert (again.changed, again.why) == (False, f"run {run} is paused")
    assert control.unpause(store, run).changed
    assert store.claim_task(["t.Double"]) is not None
    assert not control.unpause(store, run).changed


def test_a_run_that_is_paused_before_it_began(store: MemoryStore) -> None:
    run = submit(store, program_of(CHAIN), {"n": 3}).run
    assert control.pause(store, run).changed
    assert store.get_due_runs() == []
    assert control.unpause(store, run).changed
    assert runs.resume(store, run, handlers=GOOD).outputs == {"m": 24}


def test_who_pauses_is_the_user(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "grace")
    run = begin(store)
    control.pause(store, run)
    assert runs.find(store, run).reason == "paused by operator grace"

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert control.operator() == "unknown"


def test_cancel(store: MemoryStore) -> None:
    run = begin(store)
    assert control.cancel(store, run).state == "canceled"
    assert task_of(store, run).state == "canceled"
    again = control.cancel(store, run)
    assert (again.changed, again.why) == (False, f"run {run} is canceled")


def test_retry_a_run_and_a_step(store: MemoryStore) -> None:
    run = begin(store, Double=double, Half=refuse)
    assert control.retry(store, run).steps == 1
    assert runs.resume(store, run, handlers=GOOD).outputs == {"m": 24}
    other = begin(store, Double=double, Half=refuse)
    assert control.retry(store, f"{other}/b").steps == 1
    assert runs.resume(store, other, handlers=GOOD).status == "COMPLETED"
    third = begin(store, Double=double, Half=refuse)
    assert control.retry(store, task_of(store, third, "t.Half").uuid).run == third


def test_what_cannot_be_retried(store: MemoryStore) -> None:
    run = begin(store)
    with pytest.raises(InputError, match="is running"):
        control.retry(store, run)
    with pytest.raises(InputError, match=f"step {run}/0/c has not started"):
        control.retry(store, f"{run}/c")
    with pytest.raises(InputError, match="is a server"):
        control.retry(store, serve(store).uuid)
    failed = begin(store, Double=double, Half=refuse)
    with pytest.raises(InputError, match="nothing to retry"):
        control.retry(store, f"{failed}/a")


def test_waiting_for_the_end(store: MemoryStore) -> None:
    run = begin(store)
    early = wait(store, run, timeout=0)
    assert (early.timed_out, early.state) == (True, "running")
    working = threading.Thread(target=runs.resume, args=(store, run), kwargs={"handlers": GOOD})
    working.start()
    end = wait(store, run)
    working.join()
    assert (end.timed_out, end.state, end.outputs) == (False, "completed", {"m": 24})
    with pytest.raises(InputError, match="no longer in this store"):
        wait(store, "nope")


def test_prune_removes_tasks_of_no_run(store: MemoryStore) -> None:
    for uuid in ("a", "b", "c"):
        store.save_task(TaskDefinition(uuid, "ns.F", "", "", "", "", state=TaskState.COMPLETED, updated=1))
    counted = control.prune(store, HOUR, dry_run=True)
    assert (counted.runs, counted.tasks, counted.dry_run) == (0, 3, True)
    told: list[int] = []
    store.save_logs([LogDefinition(f"l{number}", 0, "", time=1) for number in range(5)])
    removed = control.prune(store, HOUR, batch=2, progress=told.append)
    assert (removed.runs, removed.tasks, told) == (0, 3, [2, 3, 5, 7, 8])
    assert store.get_all_tasks() == store.get_logs_by_runner("") == []


def test_prune_removes_old_runs_in_batches(store: MemoryStore) -> None:
    kept = begin(store)
    for _ in range(5):
        begin(store, Double=double, Half=double)
    assert control.prune(store, HOUR).runs == 0
    counted = control.prune(store, -HOUR, dry_run=True)
    assert (counted.runs, counted.dry_run, len(store.find_runs())) == (5, True, 6)
    told: list[int] = []
    removed = control.prune(store, -HOUR, batch=2, progress=told.append)
    assert (removed.runs, told) == (5, [2, 4, 5])
    assert [run.workflow_id for run in store.find_runs()] == [kept]


def test_a_store_without_retention_says_so(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "capabilities", frozenset())
    with pytest.raises(CapabilityError, match="cannot remove runs"):
        control.prune(store, HOUR)


def test_tasks(store: MemoryStore) -> None:
    first, second = begin(store), begin(store)
    store.claim_task(["t.Double"])
    lines = list_tasks(store)
    assert [(line.run, line.state, line.step, line.attempts) for line in lines] == [
        (first, "running", "a", 1),
        (second, "pending", "a", 0),
    ]
    assert "this one" in lines[0].owner
    assert [line.run for line in list_tasks(store, state="pending")] == [second]
    assert [line.run for line in list_tasks(store, run=first[:-1])] == [first]
    assert list_tasks(store, run=first, state="pending") == []
    assert list_tasks(store, name="t.Half") == list_tasks(store, task_list="gpu") == []
    assert len(list_tasks(store, limit=1)) == 1


def test_only_a_run_whose_workflow_waits_for_a_signal_takes_some(store: MemoryStore) -> None:
    source = """namespace t {
        event facet Paid(n: Long) => (ok: Boolean) with Signal("paid")
        event facet Double(n: Long) => (m: Long)
        facet Checkout(n: Long) => (ok: Boolean) andThen { p = Paid(n = $.n) yield Checkout(ok = p.ok) }
        workflow Plain(n: Long) => (m: Long) andThen { d = Double(n = $.n) yield Plain(m = d.m) }
        workflow Direct(n: Long) => (ok: Boolean) andThen { p = Paid(n = $.n) yield Direct(ok = p.ok) }
        workflow Indirect(n: Long) => (ok: Boolean) andThen { c = Checkout(n = $.n) yield Indirect(ok = c.ok) }
        workflow Later(n: Long) => (ok: Boolean)
            andThen when {
                case $.n > 5 => { p = Paid(n = $.n) yield Later(ok = p.ok) }
                case _ => { yield Later(ok = true) }
            }
    }
    """
    takes = {
        name: run_summary(store, begin(store, source, workflow=f"t.{name}")).takes_signals
        for name in ("Plain", "Direct", "Indirect", "Later")
    }
    assert takes == {"Plain": False, "Direct": True, "Indirect": True, "Later": True}


def test_a_pending_task_says_what_keeps_it_back(store: MemoryStore) -> None:
    def three(mixin: str) -> list[str]:
        source = CHAIN.replace("a = Double(n = $.n)", f"a = Double(n = $.n) with {mixin}")
        found = [begin(store, source) for _ in range(3)]
        store.claim_task(["t.Double"])
        return [line.waits for run in found for line in list_tasks(store, run=run)]

    assert three('Rate("api", perMinute = 2)') == ["", "rate", "rate"]
    assert three('Concurrency("gpu", limit = 2)') == ["", "", "concurrency"]
    task = task_of(store, begin(store))
    for failures, word in ((1, "retry"), (0, "delayed")):
        store.save_task(replace(task, not_before=store.now() + HOUR, failures=failures))
        assert [line.waits for line in list_tasks(store, run=task.workflow_id)] == [word]


def test_all_tasks_of_a_run_with_their_errors(store: MemoryStore) -> None:
    run = begin(store, Double=double, Half=refuse)
    assert [(line.name, line.state, line.error) for line in list_tasks(store, run=run)] == [
        ("t.Double", "completed", ""),
        ("t.Half", "failed", "6 is refused"),
    ]


def test_servers(lives: Lives) -> None:
    first = lives.next()
    serve(first, "t.Double", server_name="old")
    second = lives.next()
    counts = [HandledCount("t.Double", 7, 1), HandledCount("t.Half", 2, 0)]
    serve(second, "t.Double", server_name="new", handled=counts)
    serve(second, "a", "b", topics=["b"], state="shutdown", manager="", server_name="gone")
    begin(second)
    second.claim_task(["t.Double"])
    found = {server.name: server for server in servers(second)}
    assert {name: str(server.liveness) for name, server in found.items()} == {
        "old": "dead",
        "new": "running",
        "gone": "stopped",
    }
    new = found["new"]
    assert (new.load, new.use, new.handled, new.not_handled, new.is_full) == (1, "1 of 5", 9, 1, False)
    assert (found["gone"].handlers, found["gone"].load) == (["b"], 0)
    assert new.ping_age_ms <= wall_ms() - new.started + 1


def test_tasks_of_the_system_are_no_handlers_of_a_server(store: MemoryStore) -> None:
    serve(store, "t.Double", "afl:execute", "afl:resume")
    (found,) = servers(store)
    assert (found.handlers, found.evaluates) == (["t.Double"], True)
    assert found.serves("afl:resume") and found.serves("t.Double") and not found.serves("t.Half")


def test_the_wall_clock_of_a_worker_does_not_say_when_it_pinged(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = 400 * 24 * HOUR * 1_000_000
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() - behind)
    record = describe_server("s", group="g", service="afl-runner", name="host", handlers=[], topics=[])
    registration = Registration(store, record, heartbeat_ms=60_000)
    registration.enter()
    registration.running()
    monkeypatch.setattr(time, "time_ns", right)
    (found,) = servers(store)
    registration.leave()
    assert (found.liveness, found.ping_age_ms < HOUR, wall_ms() - found.started < HOUR) == (
        "running",
        True,
        True,
    )
