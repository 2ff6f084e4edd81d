"""What a runner does for all beside its work, and how often."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import pytest

from afl.kernel.clock import wall_ms
from afl.kernel.database import Query
from afl.models.exchange import Exchange, Part
from afl.runtime.entities import LogDefinition, RunDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.usage import UsageRecord
from afl.runtime.runner import periodic_jobs as jobs
from afl.runtime.stores.sql_store.usage import SqlUsage
from afl.runtime.types import WorkflowId

MANY = 450
DAY_MS = 86_400_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time that jobs go by."""
    time = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(jobs.time, "monotonic", lambda: time.now)
    return time


def poll(those: list[jobs.Job]) -> None:
    for each in those:
        each()


def save_old(store: MemoryStore, count: int, kind: str) -> None:
    ended = wall_ms() - 3 * DAY_MS
    for number in range(count):
        if kind == "runs":
            run = RunDefinition(WorkflowId(f"run-{number:03}"), "ns.W", "hash", state=RunnerState.COMPLETED)
            run.ended = ended
            store.insert_run(run)
        elif kind == "logs":
            store.save_log(LogDefinition(f"l{number}", 0, "", time=ended))
        else:
            task = TaskDefinition(f"t{number}", "ns.F", "", "", "", "", state=TaskState.COMPLETED)
            task.updated = ended
            store.save_task(task)


def left(store: MemoryStore, kind: str) -> int:
    if kind == "logs":
        return len(store.get_logs_by_runner(""))
    return len(store.get_runs(limit=1000) if kind == "runs" else store.get_all_tasks(limit=1000))


@pytest.mark.parametrize(("kind", "batch"), [("runs", 20), ("tasks", 200), ("logs", 200)])
def test_what_is_old_goes_in_small_batches_at_each_poll_until_none_is_left(
    store: MemoryStore, clock: SimpleNamespace, kind: str, batch: int
) -> None:
    save_old(store, MANY, kind)
    those = jobs.periodic_jobs_of(store, Evaluator(store), retention_days=2)
    counts = []
    while left(store, kind):
        poll(those)
        clock.now += 2
        counts.append(left(store, kind))
    assert counts == [max(0, MANY - batch * (turn + 1)) for turn in range(len(counts))]


def test_once_all_that_was_old_is_gone_it_is_looked_for_rarely(
    store: MemoryStore, clock: SimpleNamespace
) -> None:
    those = jobs.periodic_jobs_of(store, Evaluator(store), retention_days=2)
    poll(those)
    save_old(store, 1, "tasks")
    clock.now += 59
    poll(those)
    assert left(store, "tasks") == 1
    clock.now += 1
    poll(those)
    assert left(store, "tasks") == 0


def test_without_a_setting_nothing_is_removed(store: MemoryStore, clock: SimpleNamespace) -> None:
    save_old(store, 1, "tasks")
    poll(jobs.periodic_jobs_of(store, Evaluator(store), retention_days=0))
    assert left(store, "tasks") == 1


def test_a_chore_that_fails_waits_for_its_time(
    store: MemoryStore, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    def fail(before: int, limit: int) -> int:
        tried.append(clock.now)
        raise RuntimeError("no")

    monkeypatch.setattr(store, "delete_runs", fail)
    those = jobs.periodic_jobs_of(store, Evaluator(store), retention_days=2)
    for _ in range(4):
        with suppress(RuntimeError):
            poll(those)
        clock.now += 30
    assert tried == [1000, 1060]


def test_runs_that_cannot_be_removed_keep_no_tasks(
    store: MemoryStore, clock: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    save_old(store, 1, "runs")
    save_old(store, 1, "tasks")
    trigger = "create trigger refused before delete on afl_runs begin select raise(abort, 'a bad row'); end"
    store.database.atomic(Query("refuse", sqlite=trigger, postgres=None))
    those = jobs.periodic_jobs_of(store, Evaluator(store), retention_days=2)
    for _ in range(3):
        poll(those)
        clock.now += 60
    assert (left(store, "runs"), left(store, "tasks")) == (1, 0)
    assert sum("old runs" in each.getMessage() for each in caplog.records if each.levelname == "ERROR") == 1


def test_prompts_and_replies_go_after_their_own_time_and_what_was_used_stays(
    store: MemoryStore, clock: SimpleNamespace
) -> None:
    usage = SqlUsage(store.database)
    said = Exchange([Part("text", "How long is a whale?")], [Part("text", "30 meters")])
    for days in (4, 1):
        time = wall_ms() - days * DAY_MS
        usage.record_usage(UsageRecord("run", "step", "task", "m", 1, 1, time=time), said)
    poll(jobs.periodic_jobs_of(store, Evaluator(store), retention_days=0, model_calls_days=2))
    assert [call.exchange for call in usage.get_calls("run", "step", 9)] == [None, said]
