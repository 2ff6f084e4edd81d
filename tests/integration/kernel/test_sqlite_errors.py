"""What cannot be opened or written is refused by name, with what to do."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from notes_table import ADD, GET, ids, make_notes

from afl.kernel import filesystem
from afl.kernel.database import DEFAULT_URL, Database, Query, connect
from afl.kernel.database.sqlite import SqliteDatabase
from afl.kernel.errors import StoreCorrupt, StoreError, StoreUnavailable


def refused(url: str, kind: type[StoreError], *words: str) -> None:
    with pytest.raises(kind) as caught:
        connect(url)
    for word in words:
        assert word in str(caught.value)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "letter.db"
    path.write_text("Dear reader, " * 1000)
    refused(f"sqlite:///{path}", StoreCorrupt, str(path), "name another file")
    assert path.read_text().startswith("Dear reader")


def test_a_folder_of_the_default_store_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".afl").touch()
    refused(DEFAULT_URL, StoreUnavailable, str(tmp_path / ".afl"), "AFL_STORE")


def test_a_document_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("pragma application_id = 252006673")
    connection.execute("create table bookmarks (url text)")
    connection.close()
    refused(f"sqlite:///{path}", StoreCorrupt, str(path), "another program", "252006673")
    connection = sqlite3.connect(path)
    tables = connection.execute("select name from sqlite_master").fetchall()
    connection.close()
    assert tables == [("bookmarks",)]


def test_our_tables_are_added_to_the_database_of_an_application(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    connection = sqlite3.connect(path)
    connection.execute("create table orders (id text)")
    connection.execute("insert into orders values ('o-1')")
    connection.commit()
    with connect(f"sqlite:///{path}") as database:
        make_notes(database)
    assert connection.execute("select id from orders").fetchall() == [("o-1",)]
    connection.close()


def test_a_damaged_database_is_named_when_the_damage_is_met(sqlite_url: str) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with connect(sqlite_url) as database:
        make_notes(database)
        database.write(lambda tx: tx.many(ADD, [(number, "x" * 500) for number in range(1, 200)]))
    content = bytearray(path.read_bytes())
    content[4096 * 2 :] = b"\xff" * (len(content) - 4096 * 2)
    path.write_bytes(content)
    with connect(sqlite_url) as database, pytest.raises(StoreCorrupt, match="restore it from a backup"):
        ids(database)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    refused(f"sqlite:///{tmp_path}/no/such/x.db", StoreUnavailable, f"{tmp_path}/no/such", "does not exist")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    refused(f"sqlite:///{tmp_path}", StoreUnavailable, "is a directory", f"{tmp_path}/afl.db")


def test_a_folder_without_permission(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o555)
    program = (
        "import os, sys; from afl.kernel.database import connect; from afl.kernel.errors import StoreUnavailable\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: connect(sys.argv[1])\n"
        "except StoreUnavailable as error: print(error)"
    )
    command = [sys.executable, "-c", program, f"sqlite:///{tmp_path}/x.db"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert str(tmp_path) in said
    assert "check the permissions" in said


def test_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "mounted_types", lambda: {"/": "ext4", str(tmp_path): "nfs4"})
    refused(f"sqlite:///{tmp_path}/x.db", StoreUnavailable, "nfs4", "PostgreSQL")
    assert list(tmp_path.iterdir()) == []


def test_a_file_deleted_under_an_open_store(sqlite_url: str, sqlite: Database) -> None:
    os.unlink(sqlite_url.removeprefix("sqlite:///"))
    refused(sqlite_url, StoreUnavailable, "deleted or replaced", "close it first")


def test_a_full_disk(sqlite: Database) -> None:
    make_notes(sqlite)
    assert isinstance(sqlite, SqliteDatabase)
    writer = sqlite._file.writer._connection
    assert writer is not None
    pages = writer.execute("pragma page_count").fetchone()[0]
    writer.execute(f"pragma max_page_count = {pages}")
    with pytest.raises(StoreUnavailable, match="disk is full: free some space"):
        sqlite.write(lambda tx: tx.run(ADD, id=1, text="x" * 100_000))
    writer.execute("pragma max_page_count = 1000000")
    sqlite.write(lambda tx: tx.run(ADD, id=2, text="x"))
    assert ids(sqlite) == [2]


def test_a_store_closed_by_one_stays_open_for_the_other(sqlite_url: str) -> None:
    one, other = connect(sqlite_url), connect(sqlite_url)
    make_notes(one)
    one.close()
    other.write(lambda tx: tx.run(ADD, id=1, text="a"))
    assert other.select(GET, id=1)[0]["text"] == "a"
    other.close()
    assert not os.path.exists(f"{other.url.removeprefix('sqlite:///')}-wal")


def test_the_promises_of_the_file(sqlite: Database) -> None:
    assert isinstance(sqlite, SqliteDatabase)
    writer = sqlite._file.writer._connection
    assert writer is not None
    settings = [writer.execute(f"pragma {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert settings == ["wal", 2]
    assert writer.execute("pragma foreign_keys").fetchone()[0] == 1
    assert sqlite.select(Query.of("pragma foreign_keys"))[0]["foreign_keys"] == 1
