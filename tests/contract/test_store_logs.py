"""Run logs."""

from __future__ import annotations

import pytest
from store_records import a_log

from afl.kernel.errors import PayloadError, StoreConflict
from afl.runtime.entities import LogDefinition, NoteImportance, NoteOriginator, NoteType
from afl.runtime.persistence import PersistenceAPI


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
