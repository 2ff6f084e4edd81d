"""From a URL to a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl.kernel.database import DEFAULT_URL, Query, connect
from afl.kernel.database.address import safe_url
from afl.kernel.errors import InputError, StoreError
from afl.kernel.ids import random_id

MAKE = Query.of("create table t (a {bigint}) {strict}")
LOOK = Query.of("select a from t")


@pytest.mark.parametrize(
    "url", ["mysql://u:secret@h/d", "sqlite://", "sqlite:///", "sqlite:///:memory:", "nonsense"]
)
def test_a_url_that_names_no_store_is_refused_with_the_forms(url: str) -> None:
    with pytest.raises(InputError, match="expected sqlite:///") as caught:
        connect(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host:5432/db?password=secret", "postgresql://me:***@host:5432/db"),
        ("postgresql://me:se/cr@et#@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql:///db?host=/run", "postgresql:///db"),
        ("sqlite:///a/b.db", "sqlite:///a/b.db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert safe_url(url) == shown


def test_the_default_store_makes_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with connect() as database:
        assert database.url == DEFAULT_URL
    assert (tmp_path / ".afl" / "afl.db").is_file()


def test_a_relative_and_an_absolute_path_can_be_one_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.db").symlink_to("a b.db")
    with connect("sqlite:///a%20b.db") as one, connect(f"sqlite:///{tmp_path}/link.db") as other:
        one.write(lambda tx: tx.run(MAKE))
        assert other.select(LOOK) == []
        assert one.presence.id == other.presence.id
    assert (tmp_path / "a b.db").is_file()


def test_each_memory_store_is_private() -> None:
    with connect("memory://") as one, connect("memory://") as other:
        one.write(lambda tx: tx.run(MAKE))
        assert one.select(LOOK) == []
        with pytest.raises(StoreError, match="no such table"):
            other.select(LOOK)


def test_the_first_read_of_many_rows_from_a_store_in_memory() -> None:
    """Whether a statement writes is tried when it is first seen in a process; that must not end it early."""
    text = "select r.i, (select s from t x where x.i = r.i) as s from t r order by i desc"
    query = Query("texts", sqlite=f"{text} -- {random_id()}", postgres=None)
    with connect("memory://") as database:
        database.atomic(
            Query("make", sqlite="create table t (i text primary key, s text) without rowid", postgres=None)
        )
        database.atomic(Query("fill", sqlite="insert into t values ('1', 'a'), ('2', 'b')", postgres=None))
        assert [row["s"] for row in database.select(query)] == ["b", "a"]
