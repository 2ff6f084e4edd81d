"""The history of a run: stored by the commits that it tells of, numbered in their order."""

from __future__ import annotations

import threading

import pytest
from store_records import RUN, OpenStore, a_run, begin

from afl.kernel.database import Query
from afl.kernel.errors import FencedError
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence import history as rules
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.history import HistoryEvent, HistoryKind
from afl.runtime.stores.sql_store.store import SqlStore
from afl.runtime.types import WorkflowId


def an_event(n: int) -> HistoryEvent:
    return HistoryEvent(HistoryKind.STEP_COMPLETED, n, f"step{n}", "ns.Fäcet", 'say "x"\n')


def test_commits_append_and_a_reader_reads_on(store: PersistenceAPI) -> None:
    run = begin(store)
    store.commit(IterationChanges(run=run, history=[an_event(1), an_event(2)]))
    store.commit(IterationChanges(run=run))
    store.commit(IterationChanges(run=run, history=[an_event(3)]))
    every = store.get_history(RUN)
    assert [events for _, events in every] == [[an_event(1), an_event(2)], [an_event(3)]]
    first = every[0][0]
    assert store.get_history(RUN, first) == every[1:]
    assert store.get_history(RUN, limit=1) == every[:1]
    assert store.get_history(WorkflowId("another")) == []


def test_a_commit_that_is_fenced_leaves_no_history(store: PersistenceAPI) -> None:
    run = begin(store)
    run.epoch += 1
    with pytest.raises(FencedError):
        store.commit(IterationChanges(run=run, history=[an_event(1)]))
    assert store.get_history(RUN) == []


def test_what_people_do_to_a_run_is_told_with_the_reason(store: PersistenceAPI) -> None:
    store.insert_run(a_run())
    assert store.pause_run(RUN, "paused by Ada")
    assert store.unpause_run(RUN)
    assert store.cancel_run(RUN, "canceled by Ada")
    told = [(event.kind, event.detail) for _, events in store.get_history(RUN) for event in events]
    assert told == [
        (HistoryKind.RUN_PAUSED, "paused by Ada"),
        (HistoryKind.RUN_RESUMED, ""),
        (HistoryKind.RUN_CANCELED, "canceled by Ada"),
    ]


def test_who_reads_on_while_others_write_misses_nothing_and_repeats_nothing(open_store: OpenStore) -> None:
    """The evaluator of the run commits while others pause and unpause it, each on a connection of its own."""
    store, other, reader = open_store(), open_store(), open_store()
    store.insert_run(a_run())
    done = threading.Event()

    def pause_again_and_again() -> None:
        for _ in range(30):
            other.pause_run(RUN, "p")
            other.unpause_run(RUN)

    def evaluate() -> None:
        for n in range(60):
            run = store.take_run(RUN, lease_ms=60_000)
            if run is not None and run.owner:
                try:
                    run.owner = ""
                    store.commit(IterationChanges(run=run, history=[an_event(n)]))
                except FencedError:
                    continue

    writers = [threading.Thread(target=each) for each in (pause_again_and_again, evaluate)]
    for each in writers:
        each.start()
    threading.Thread(target=lambda: ([each.join() for each in writers], done.set())).start()
    seen: list[tuple[int, list[HistoryEvent]]] = []
    while not done.is_set() or reader.get_history(RUN, seen[-1][0] if seen else 0):
        seen += reader.get_history(RUN, seen[-1][0] if seen else 0, limit=7)
    assert seen == store.get_history(RUN)
    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    assert len(seen) >= 60


_COPY = Query.of(
    "with recursive numbers(n) as (select 2 union all select n + 1 from numbers where n < :last)"
    " insert into afl_history (workflow_id, number, events)"
    " select workflow_id, n, events from afl_history, numbers where number = 1"
)


def copy_first_commit(store: PersistenceAPI, last: int) -> None:
    """What so many commits would have stored, of which each takes a transaction."""
    if isinstance(store, SqlStore):
        store.database.atomic(_COPY, last=last)
        return
    assert isinstance(store, MongoStore)
    history = store.connection.call(lambda database: database["history"])
    first = history.find_one({}, {"_id": 0}) or {}
    history.insert_many([{**first, "number": number} for number in range(2, last + 1)])


def test_of_a_run_without_end_the_latest_commits_are_kept(store: PersistenceAPI) -> None:
    last = rules.KEPT_COMMITS + rules.TRIM_EVERY
    run = begin(store)
    store.commit(IterationChanges(run=run, history=[an_event(1)]))
    copy_first_commit(store, last - 2)
    store.commit(IterationChanges(run=run, history=[an_event(last - 1)]))
    every = store.get_history(RUN, limit=20_000)
    assert [number for number, _ in every] == list(range(1, last))
    store.commit(IterationChanges(run=run, history=[an_event(last)]))
    kept = every[-rules.KEPT_COMMITS + 1 :]
    assert store.get_history(RUN, limit=20_000) == [*kept, (last, [an_event(last)])]
