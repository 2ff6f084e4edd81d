"""A process that keeps the write lock of an SQLite file: waited for, named, and not forever."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conversation import SCRIPT, received, tell
from notes_table import ADD, ids, make_notes
from support.processes import python

from afl.kernel.database import connect
from afl.kernel.database.sqlite import SqliteDatabase
from afl.kernel.errors import StoreUnavailable


@contextmanager
def stopped_writer(url: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, stopped in the middle of a write."""
    with connect(url) as database:
        make_notes(database)
    with python(SCRIPT, "stuck", url) as process:
        assert received(process) == "inside"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        yield process


def test_a_write_that_waits_too_long_names_who_is_in_its_way(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with stopped_writer(sqlite_url) as process, connect(sqlite_url, lock_timeout_ms=200) as database:
        with (
            caplog.at_level(logging.WARNING, "afl"),
            pytest.raises(StoreUnavailable) as caught,
        ):
            database.write(lambda tx: tx.run(ADD, id=2, text="waited"))
        (warning,) = caplog.messages
        for text in (str(caught.value), warning):
            assert f"process {process.pid} (" in text
            assert "store_process.py stuck" in text
            assert "; stopped) holds the write lock" in text
            assert f"`kill -CONT {process.pid}`" in text
        assert "AFL_LOCK_TIMEOUT_MS" in str(caught.value)
        process.send_signal(signal.SIGCONT)
        tell(process)
        assert received(process) == "committed"
        database.write(lambda tx: tx.run(ADD, id=2, text="at last"))
        assert ids(database) == [1, 2]


def test_everybody_who_waits_in_this_process_is_told_at_once(sqlite_url: str) -> None:
    refusals: list[StoreUnavailable] = []

    with stopped_writer(sqlite_url), connect(sqlite_url, lock_timeout_ms=300) as database:

        def write(number: int) -> None:
            with pytest.raises(StoreUnavailable) as caught:
                database.write(lambda tx: tx.run(ADD, id=number, text="waited"))
            refusals.append(caught.value)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(2, 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(refusals) == 6


def test_to_open_and_read_takes_no_lock(sqlite_url: str) -> None:
    with stopped_writer(sqlite_url) as process, connect(sqlite_url, lock_timeout_ms=3_600_000) as database:
        assert ids(database) == []
        holder = database.write_lock()
        assert holder is not None
        assert (holder.pid, holder.state) == (process.pid, "stopped")


def test_a_file_that_anybody_may_write_to_has_no_holder(sqlite_url: str) -> None:
    with connect(sqlite_url) as database:
        make_notes(database)
        assert database.write_lock() is None


def test_a_process_that_does_not_let_go_is_named_though_it_runs(sqlite_url: str) -> None:
    with connect(sqlite_url) as database:
        make_notes(database)
        with python(SCRIPT, "stuck", sqlite_url) as process:
            assert received(process) == "inside"
            holder = database.write_lock()
    assert holder is not None
    assert holder.pid == process.pid
    assert holder.remedy == f"wait for it, or end it with `kill {process.pid}`"


def test_another_program_in_a_transaction_is_waited_for_no_longer(sqlite_url: str) -> None:
    with connect(sqlite_url, lock_timeout_ms=300) as database:
        assert isinstance(database, SqliteDatabase)
        make_notes(database)
        foreign = sqlite3.connect(database.path, isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        for attempt in (
            lambda: database.write(lambda tx: tx.run(ADD, id=2, text="waited")),
            lambda: database.atomic(ADD, id=2, text="waited"),
        ):
            with pytest.raises(StoreUnavailable, match="another connection of this process holds"):
                attempt()
        foreign.execute("ROLLBACK")
        foreign.close()
        database.write(lambda tx: tx.run(ADD, id=3, text="at last"))
        assert ids(database) == [3]
