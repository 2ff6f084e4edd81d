"""Run logs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from store_records import LONG, RUN, OpenStore, a_log, begin

from afl.kernel.errors import PayloadError, StoreConflict
from afl.runtime.entities import LogDefinition, NoteImportance, NoteOriginator, NoteType
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges


def test_every_field_of_a_log_entry_comes_back(store: PersistenceAPI) -> None:
    log = LogDefinition(
        uuid="l",
        order=1,
        runner_id="r",
        step_id="step",
        object_id="object",
        object_type="type",
        note_originator=NoteOriginator.AGENT,
        note_type=NoteType.ERROR,
        note_importance=NoteImportance.HIGH,
        message="grüße \x00 😀",
        state="state",
        line=2,
        file="file",
        details={"a.b": [1, {"$x": None}], "": "\x00"},
        time=3,
    )
    store.save_log(log)
    assert store.get_logs_by_runner("r") == [log]


def test_entries_come_by_order_then_by_time(store: PersistenceAPI) -> None:
    for uuid, order, time in [("a", 2, 1), ("b", 1, 9), ("c", 1, 2), ("d", 0, 50)]:
        store.save_log(a_log(uuid, order, time=time))
    store.save_log(a_log("e", 0, "other"))
    assert [log.uuid for log in store.get_logs_by_runner("r")] == ["d", "c", "b", "a"]
    assert store.get_logs_by_runner("missing") == []


def test_an_entry_is_appended_never_replaced(store: PersistenceAPI) -> None:
    store.save_log(a_log(message="first"))
    with pytest.raises(StoreConflict):
        store.save_log(a_log(message="second"))
    assert store.get_logs_by_runner("r") == [a_log(message="first")]


def test_details_that_are_no_plain_data_are_refused(store: PersistenceAPI) -> None:
    with pytest.raises(PayloadError):
        store.save_log(a_log(details={"x": object()}))
    assert store.get_logs_by_runner("r") == []


def uuids(entries: list[tuple[int, LogDefinition]]) -> list[str]:
    return [log.uuid for _, log in entries]


def test_entries_together_are_stored_together(store: PersistenceAPI) -> None:
    store.save_logs([a_log("a"), a_log("b", 1), a_log("c", 2, "other")])
    store.save_logs([])
    assert [log.uuid for log in store.get_logs_by_runner("r")] == ["a", "b"]
    with pytest.raises(StoreConflict):
        store.save_logs([a_log("d", 3), a_log("a", 4)])
    with pytest.raises(PayloadError):
        store.save_logs([a_log("e", 5), a_log("f", 6, details={"x": object()})])
    assert [log.uuid for log in store.get_logs_by_runner("r")] == ["a", "b"]


def test_a_log_is_followed_by_position(store: PersistenceAPI) -> None:
    """In the order in which entries were stored, whatever their own order says."""
    assert store.get_logs_after("r", 0) == []
    store.save_logs([a_log("a", 9, time=5, message="first"), a_log("x", 0, "other"), a_log("b", 1)])
    store.save_log(a_log("c", 5))
    entries = store.get_logs_after("r", 0)
    assert uuids(entries) == ["a", "b", "c"]
    assert entries[0][1] == a_log("a", 9, time=5, message="first")
    positions = [position for position, _ in entries]
    assert positions == sorted(set(positions))
    assert min(positions) > 0
    assert uuids(store.get_logs_after("r", positions[0])) == ["b", "c"]
    assert uuids(store.get_logs_after("r", 0, limit=2)) == ["a", "b"]
    assert store.get_logs_after("r", positions[-1]) == []
    assert store.get_logs_after("r", 0, limit=0) == []
    store.save_log(a_log("d", 0))
    assert uuids(store.get_logs_after("r", positions[-1])) == ["d"]


def test_a_log_is_read_backwards_page_by_page(store: PersistenceAPI) -> None:
    assert store.get_logs_before("r") == []
    store.save_logs([a_log(uuid, runner_id="r") for uuid in "abc"])
    store.save_log(a_log("other", runner_id="s"))
    newest = store.get_logs_before("r", limit=2)
    assert uuids(newest) == ["c", "b"]
    assert uuids(store.get_logs_before("r", newest[-1][0])) == ["a"]
    assert store.get_logs_before("r", limit=0) == []


def test_entries_of_a_commit_are_followed_too(store: PersistenceAPI) -> None:
    run = begin(store)
    store.save_log(a_log("a", runner_id=RUN))
    store.commit(IterationChanges(run=run, logs=[a_log("b", runner_id=RUN), a_log("c", runner_id=RUN)]))
    assert uuids(store.get_logs_after(RUN, 0)) == ["a", "b", "c"]


def test_who_follows_while_many_write_misses_nothing(open_store: OpenStore) -> None:
    """An entry never appears behind a position that a reader has passed already."""
    writers, batches = 4, 25
    stores = [open_store() for _ in range(writers + 1)]
    together = threading.Barrier(writers + 1)
    expected = {
        f"{n}-{batch}-{part}" for n in range(writers) for batch in range(batches) for part in range(2)
    }

    def write(number: int) -> None:
        together.wait()
        for batch in range(batches):
            stores[number].save_logs([a_log(f"{number}-{batch}-{part}", batch) for part in range(2)])

    def follow() -> list[str]:
        together.wait()
        position, seen = 0, list[str]()
        while len(seen) < len(expected):
            writing = any(not each.done() for each in at_work)
            entries = stores[-1].get_logs_after("r", position)
            seen += uuids(entries)
            position = entries[-1][0] if entries else position
            if not entries and not writing:
                break
        return seen

    with ThreadPoolExecutor(writers + 1) as pool:
        at_work = [pool.submit(write, number) for number in range(writers)]
        seen = pool.submit(follow).result(LONG)
    assert [each.exception() for each in at_work] == [None] * writers
    assert sorted(seen) == sorted(expected)
