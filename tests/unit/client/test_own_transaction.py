"""A run started inside a transaction of the application, on the application's own SQLite database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import afl
from afl.kernel.errors import StoreCorrupt, StoreUnavailable
from afl.kernel.settings import Settings
from afl.operations import audit
from afl.operations.run.run_store import opened

SOURCE = "workflow W(x: Int) => (y: Int) andThen { yield W(y = $.x) }"


@pytest.mark.parametrize("first", ["the application", "the client"])
def test_the_tables_of_an_application_may_be_in_the_same_file(tmp_path: Path, first: str) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as own, afl.connect(path) as flow:
        if first == "the client":
            flow.list()
        own.execute("create table orders (id text)")
        flow.start(SOURCE, x=1)
        own.execute("insert into orders values ('o-1')")
        flow.start(SOURCE, x=2, id="order-o-1", connection=own)
        own.commit()
        assert flow.get("order-o-1").status().state == "created"
        assert own.execute("select id from orders").fetchall() == [("o-1",)]


def test_who_only_looks_adds_no_tables_to_the_database_of_an_application(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as own:
        own.execute("create table orders (id text)")
        settings = Settings(store=f"sqlite:///{path}")
        with (
            pytest.raises(StoreCorrupt, match=r"another program .it has a table orders"),
            opened(settings, create=False),
        ):
            pass
        assert own.execute("select name from sqlite_master").fetchall() == [("orders",)]


def test_a_forgotten_connection_is_named_after_one_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(store=f"sqlite:///{tmp_path}/app.db", lock_timeout_ms=300)
    noted: list[object] = []
    with afl.connect(settings=settings) as flow, closing(sqlite3.connect(tmp_path / "app.db")) as own:
        flow.list()
        own.execute("create table orders (id text)")
        own.execute("insert into orders values ('o-1')")
        monkeypatch.setattr(audit, "note", lambda *given: noted.append(given))  # it would wait as long again
        with pytest.raises(
            StoreUnavailable, match=r"another connection of this process .* connection="
        ) as caught:
            flow.start(SOURCE, x=1)
    assert "kill" not in str(caught.value)
    assert noted == []
