"""Bulk actions: what they would hit, what they did, and how they go on."""

from __future__ import annotations

from typing import Any

import pytest

from afl.kernel.errors import InputError
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.run import runs
from afl.operations.run.bulk import ACTION_NAMES, bulk_prune, bulk_runs, preview_bulk
from afl.runtime.entities import RunnerState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import RunFilter
from afl.runtime.task_handlers.handler import Handlers

SOURCE = """namespace t {
    event facet Approve(n: Long) => (ok: Boolean) with Human("finance")
    event facet Work(n: Long) => (m: Long)
    workflow Ask(n: Long) => (ok: Boolean) andThen { a = Approve($.n) yield Ask(ok = a.ok) }
    workflow Do(n: Long) => (m: Long) andThen { w = Work($.n) yield Do(m = w.m) }
}
"""


@pytest.fixture
def store() -> Any:
    opened = MemoryStore()
    yield opened
    opened.close()


def work(n: int) -> dict[str, int]:
    if n < 0:
        raise ValueError("below zero")
    return {"m": n}


def started(store: MemoryStore, workflow: str, n: int, **tags: str) -> str:
    program = choose_workflow(compile_source(SOURCE), workflow)
    return runs.start(store, program, {"n": n}, handlers=Handlers.of({"Work": work}), tags=tags).run


def states(store: MemoryStore) -> dict[str, str]:
    return {run.workflow_id: run.state for run in store.find_runs(RunFilter(limit=1_000))}


def test_waiting_runs_are_canceled_some_at_a_time(store: MemoryStore) -> None:
    asked = [started(store, "t.Ask", n, team="data") for n in range(5)]
    other = started(store, "t.Ask", 9)
    preview = preview_bulk(store, "cancel", state="waiting:person", tags=["team=data"])
    assert (preview.count, preview.more, [line.run for line in preview.runs]) == (5, False, asked[::-1])
    assert set(states(store).values()) == {RunnerState.RUNNING}
    first = bulk_runs(store, "cancel", state="waiting:person", tags=["team=data"], limit=3, by="ada")
    assert (first.done, first.failed, first.next) == (3, [], asked[2])
    assert first.summary == "cancel of 3 runs: state=waiting:person tags=team=data"
    rest = bulk_runs(store, "cancel", state="waiting:person", tags=["team=data"], before=first.next, by="ada")
    assert (rest.done, rest.next) == (2, "")
    assert states(store) == {other: RunnerState.RUNNING, **dict.fromkeys(asked, RunnerState.CANCELED)}
    again = bulk_runs(store, "cancel", tags=["team=data"])
    assert (again.done, again.failed) == (0, [])
    assert {run.reason for run in store.find_runs(RunFilter(state=RunnerState.CANCELED))} == {
        "canceled by operator ada"
    }


def test_failed_runs_are_retried_and_those_that_go_on_are_not(store: MemoryStore) -> None:
    failed = [started(store, "t.Do", -n) for n in (1, 2)]
    done, waiting = started(store, "t.Do", 1), started(store, "t.Ask", 1)
    assert preview_bulk(store, "retry", workflow="t.Do").count == 2
    assert bulk_runs(store, "retry", workflow="t.Do").done == 2
    assert states(store) == {
        **dict.fromkeys(failed, RunnerState.RUNNING),
        done: RunnerState.COMPLETED,
        waiting: RunnerState.RUNNING,
    }
    assert bulk_runs(store, "pause", within="1h").done == 3
    assert preview_bulk(store, "pause", within="1h").count == 0
    assert (
        bulk_runs(store, "unpause", state="paused").done,
        bulk_runs(store, "unpause", within="1h").done,
    ) == (3, 0)
    assert preview_bulk(store, "pause", within="1h").count == 3


def test_what_cannot_be_done_is_reported_with_its_run(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = started(store, "t.Do", -1), started(store, "t.Do", -2)
    retry = bulk_runs.__globals__["control"].retry

    def refusing(store: MemoryStore, name: str) -> Any:
        if name == first:
            raise InputError("no way")
        return retry(store, name)

    monkeypatch.setattr("afl.operations.run.bulk.control.retry", refusing)
    done = bulk_runs(store, "retry", state="failed")
    assert (done.done, [(each.run, each.problem) for each in done.failed]) == (1, [(first, "no way")])
    assert done.summary == "retry of 1 runs, 1 not: state=failed"
    assert states(store)[second] == RunnerState.RUNNING


def test_ended_runs_are_removed_until_none_is_left(store: MemoryStore) -> None:
    gone = [started(store, "t.Do", n, keep="no") for n in range(5)]
    kept = [started(store, "t.Do", 7), started(store, "t.Ask", 7, keep="no")]
    assert preview_bulk(store, "prune", tags=["keep=no"]).count == 5
    parts = [bulk_prune(store, tags=["keep=no"], limit=2)]
    while parts[-1].next:
        parts.append(bulk_prune(store, tags=["keep=no"], limit=2, before=parts[-1].next))
    assert [part.done for part in parts] == [2, 2, 1]
    assert set(states(store)) == set(kept) and not set(gone) & set(states(store))


@pytest.mark.parametrize("action", ACTION_NAMES)
def test_a_bulk_action_without_a_filter_is_refused(store: MemoryStore, action: str) -> None:
    with pytest.raises(InputError, match="needs a filter"):
        preview_bulk(store, action)
    with pytest.raises(InputError, match="needs a filter"):
        bulk_prune(store) if action == "prune" else bulk_runs(store, action)


def test_a_word_that_is_no_action_is_refused(store: MemoryStore) -> None:
    for call in (preview_bulk, bulk_runs):
        with pytest.raises(InputError, match="'explode' is not a bulk action"):
            call(store, "explode", state="failed")


def test_ended_runs_are_started_again_once_each(store: MemoryStore) -> None:
    ended = [started(store, "t.Do", n, team="data") for n in (1, -1, 2)]
    started(store, "t.Ask", 1)
    assert preview_bulk(store, "rerun", tags=["team=data"]).count == 3
    first = bulk_runs(store, "rerun", tags=["team=data"], limit=2, by="ada")
    assert (first.done, first.next) == (2, ended[1])
    assert bulk_runs(store, "rerun", tags=["team=data"], limit=2).done == 1, "as after an interruption"
    again = [run for run in store.find_runs(RunFilter(limit=100)) if run.origin]
    assert sorted(run.origin for run in again) == sorted(ended)
    assert {run.state for run in again} == {RunnerState.CREATED}
    assert {run.tags["team"] for run in again} == {"data"}
    assert bulk_runs(store, "rerun", tags=["team=data"]).done == 0
