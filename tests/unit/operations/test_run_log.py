"""The log of a run, as it is shown."""

from __future__ import annotations

from dataclasses import replace

from operated_store import begin

from afl.kernel.ids import random_id
from afl.operations.run.control import cancel, retry
from afl.operations.run.run_events import read_events
from afl.operations.run.run_log import read_page
from afl.runtime.entities import LogDefinition
from afl.runtime.memory_store import MemoryStore


def entry(run: str, message: str, **fields: object) -> LogDefinition:
    return replace(LogDefinition(random_id(), 0, run, f"{run}/0/a", message=message), **fields)  # type: ignore[arg-type]


def test_reading(store: MemoryStore) -> None:
    run = begin(store)
    store.save_logs([entry(run, "begun"), entry(run, "half", details={"progress": 0.5}, note_type="warning")])
    first, second = read_page(store, run).lines
    assert (first.step, first.message, first.level, first.progress) == ("a", "begun", "info", None)
    assert (second.progress, second.level, second.step_id) == (0.5, "warning", f"{run}/0/a")
    assert (first.text, second.text) == ("begun", "50% half")


def test_progress_without_words_is_said_once(store: MemoryStore) -> None:
    run = begin(store)
    store.save_logs([entry(run, "50%", details={"progress": 0.5})])
    assert [line.text for line in read_page(store, run).lines] == ["50%"]


def test_a_run_ends_after_all_that_it_logged(store: MemoryStore) -> None:
    """Who reads events stops at the end. Times are of several clocks, and equal within a millisecond."""
    run = begin(store)
    cancel(store, run)
    *_, end = read_events(store, run).events
    store.save_logs([entry(run, "same", time=end.time), entry(run, "later", time=end.time + 60_000)])
    *_, first, second, last = read_events(store, run).events
    assert [first.message, second.message, last.kind] == ["same", "later", "run-canceled"]
    retry(store, run)
    *_, first, second, third, last = read_events(store, run).events
    assert [first.message, second.kind, third.kind] == ["same", "run-canceled", "run-retried"]
    assert (last.message, read_events(store, run, after=third.position).events) == ("later", [last])
