"""The write-ahead log of an SQLite file, read as the file it is."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl.kernel.database.sqlite_log import LogState, read_log

_HEADER, _FRAME, _PAGE = 32, 24, 4096


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A file with a log; it stays open, so that SQLite does not fold the log in."""
    with closing(sqlite3.connect(tmp_path / "open.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE notes (text)")
        yield connection


def write(database: sqlite3.Connection, commits: int) -> None:
    for _ in range(commits):
        database.execute("INSERT INTO notes VALUES (?)", ["x" * 100])


def damaged(tmp_path: Path, place: int) -> LogState:
    """The state of a copy of the log in which a few bytes are others."""
    for end in ("", "-wal"):
        shutil.copy(tmp_path / f"open.db{end}", tmp_path / f"copy.db{end}")
    with (tmp_path / "copy.db-wal").open("r+b") as log:
        log.seek(place)
        before = log.read(3)
        log.seek(place)
        log.write(bytes(255 - each for each in before))
    return read_log(str(tmp_path / "copy.db"))


def test_a_file_without_log_and_a_log_that_is_whole(tmp_path: Path, database: sqlite3.Connection) -> None:
    assert read_log(str(tmp_path / "nothing.db")) == LogState(0, 0)
    write(database, 10)
    state = read_log(str(tmp_path / "open.db"))
    assert (state.frames >= 10, state.lost_commits) == (True, 0)


@pytest.mark.parametrize("part", ["page", "salt", "checksum"])
def test_commits_behind_damaged_bytes_are_counted(
    tmp_path: Path, database: sqlite3.Connection, part: str
) -> None:
    write(database, 10)
    every = read_log(str(tmp_path / "open.db")).frames
    fifth = _HEADER + 4 * (_FRAME + _PAGE)
    inside = {"page": _FRAME + 500, "salt": 8, "checksum": 16}[part]
    state = damaged(tmp_path, fifth + inside)
    assert state.frames == 4
    lost = every - 4 - (part == "salt")  # a frame with another salt may be of an earlier use of the file
    assert state.lost_commits == lost


def test_a_log_without_its_header_is_lost_as_a_whole(tmp_path: Path, database: sqlite3.Connection) -> None:
    write(database, 10)
    state = damaged(tmp_path, 8)
    assert (state.frames, state.lost_commits > 9) == (0, True)


def test_what_was_left_by_an_earlier_use_of_the_log_is_no_loss(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    write(database, 50)
    database.execute("PRAGMA wal_checkpoint(restart)")
    write(database, 5)
    assert read_log(str(tmp_path / "open.db")) == LogState(5, 0)


def test_a_transaction_that_was_taken_back_is_no_loss(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("PRAGMA cache_size = 5")
    database.execute("BEGIN")
    write(database, 2000)
    database.execute("ROLLBACK")
    assert (tmp_path / "open.db-wal").stat().st_size > 20 * _PAGE
    write(database, 1)
    assert read_log(str(tmp_path / "open.db")).lost_commits == 0


def test_a_write_that_was_cut_off_is_no_loss(tmp_path: Path, database: sqlite3.Connection) -> None:
    write(database, 3)
    last = (tmp_path / "open.db-wal").stat().st_size - 100
    assert damaged(tmp_path, last).lost_commits == 0
    with (tmp_path / "copy.db-wal").open("r+b") as log:
        log.truncate(last)
    assert read_log(str(tmp_path / "copy.db")).lost_commits == 0
