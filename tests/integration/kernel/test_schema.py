"""Tables come into being once, whoever asks, and grow only forward."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.databases import fresh_postgres_database
from support.structure import replay, structure

from afl.kernel.database import Database, Query, Schema, connect
from afl.kernel.errors import InputError, StoreError, StoreVersionError

FIRST = "create table pets (id {identity}, name text not null check (name <> '')) {strict};\n"
SECOND = (
    "alter table pets add column legs {bigint} not null default 4;\ncreate index pets_legs on pets (legs);\n"
)
FRESH = """
-- The pets; now with legs.
create table pets (
    id {identity},
    name text NOT NULL check (name <> ''),
    legs {bigint} not null default 4
) {strict};
create index pets_legs on pets (legs);
"""
SCHEMA = Schema("sample_pets", "sql", component="pets")
VERSION = Query.of("select version from afl_schema where component = 'pets'")
ADD = Query.of("insert into pets (name) values (:name)")


class Folder:
    """The package data of `sample_pets`, to be changed like a release changes it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "sample_pets" / "sql"
        (self.root / "migrations").mkdir(parents=True)
        (root / "sample_pets" / "__init__.py").touch()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def release_one(self) -> None:
        self.write("schema.sql", FIRST)
        self.write("migrations/0001_first.sql", FIRST)

    def remove_migrations(self) -> None:
        for file in (self.root / "migrations").iterdir():
            file.unlink()

    def release_two(self) -> None:
        self.write("schema.sql", FRESH)
        self.write("migrations/0002_legs.sql", SECOND)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sample_pets", raising=False)
    found = Folder(tmp_path)
    found.release_one()
    return found


@pytest.fixture
def twin(url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Database]:
    """Another empty store of the same kind."""
    if url.startswith("postgresql"):
        with (
            fresh_postgres_database(request.getfixturevalue("postgres_url")) as other,
            connect(other) as database,
        ):
            yield database
    else:
        with connect("memory://" if url == "memory://" else f"sqlite:///{tmp_path}/twin.db") as database:
            yield database


def version(database: Database) -> int:
    found: int = database.select(VERSION)[0]["version"]
    return found


def test_a_fresh_store_gets_the_newest_tables(folder: Folder, database: Database) -> None:
    folder.release_two()
    database.ensure(SCHEMA)
    database.ensure(SCHEMA)
    database.write(lambda tx: tx.run(ADD, name="Rex"))
    assert version(database) == 2
    assert database.select(Query.of("select legs from pets"))[0]["legs"] == 4


def test_an_old_store_is_brought_forward_with_its_rows(folder: Folder, database: Database) -> None:
    database.ensure(SCHEMA)
    database.write(lambda tx: tx.run(ADD, name="Rex"))
    assert version(database) == 1
    folder.release_two()
    database.ensure(SCHEMA)
    assert version(database) == 2
    assert [dict(row) for row in database.select(Query.of("select name, legs from pets"))] == [
        {"name": "Rex", "legs": 4}
    ]


def test_migrations_lead_to_the_fresh_schema(folder: Folder, database: Database, twin: Database) -> None:
    folder.release_two()
    database.ensure(SCHEMA)
    replay(twin, SCHEMA)
    assert structure(database) == structure(twin)
    assert len(structure(database)) >= 5


@pytest.mark.parametrize(
    "difference",
    [
        "create index extra on pets (name)",
        "alter table pets add column tail text",
        "create table extra (id {bigint} primary key)",
        "drop index pets_legs",
    ],
)
def test_a_difference_is_seen(folder: Folder, database: Database, twin: Database, difference: str) -> None:
    folder.release_two()
    database.ensure(SCHEMA)
    replay(twin, SCHEMA)
    twin.write(lambda tx: tx.run(Query.of(difference)))
    assert structure(database) != structure(twin)


def test_a_migration_that_fails_changes_nothing(folder: Folder, database: Database) -> None:
    database.ensure(SCHEMA)
    before = structure(database)
    folder.release_two()
    folder.write("migrations/0002_legs.sql", SECOND + "insert into nowhere values (1);")
    with pytest.raises(StoreError, match=r"pets/0002_legs.sql statement 3"):
        database.ensure(SCHEMA)
    assert (structure(database), version(database)) == (before, 1)


def test_a_newer_store_is_refused(folder: Folder, database: Database) -> None:
    database.ensure(SCHEMA)
    database.write(lambda tx: tx.run(Query.of("update afl_schema set version = 9")))
    with pytest.raises(
        StoreVersionError, match=r"version 9 of the tables of 'pets'.*up to 1.*upgrade agentflow-afl"
    ):
        database.ensure(SCHEMA)


def test_a_store_older_than_the_base_is_refused(folder: Folder, database: Database) -> None:
    database.ensure(SCHEMA)
    folder.write("schema.sql", FRESH)
    folder.remove_migrations()
    squashed = replace(SCHEMA, base=2)
    with pytest.raises(StoreVersionError, match=r"version 1 of the tables of 'pets'.*from version 2 on"):
        database.ensure(squashed)


def test_a_store_of_the_base_goes_on_without_migrations(folder: Folder, database: Database) -> None:
    folder.release_two()
    database.ensure(SCHEMA)
    folder.remove_migrations()
    squashed = replace(SCHEMA, base=2)
    database.ensure(squashed)
    folder.write("migrations/0002_base.sql", FRESH)
    folder.write("migrations/0003_tails.sql", "alter table pets add column tail text;")
    database.ensure(squashed)
    assert version(database) == 3
    assert database.select(Query.of("select tail from pets")) == []


def test_one_dialect_may_have_its_own_text(folder: Folder, database: Database) -> None:
    folder.write(f"schema.{database.dialect}.sql", "create table special (a {bigint});")
    database.ensure(SCHEMA)
    assert database.select(Query.of("select a from special")) == []


def test_parts_do_not_disturb_each_other(folder: Folder, database: Database) -> None:
    database.ensure(SCHEMA)
    folder.write("schema.sql", "create table others (a {bigint});")
    database.ensure(Schema("sample_pets"))
    names = {row["component"] for row in database.select(Query.of("select component from afl_schema"))}
    assert names == {"pets", "sample_pets"}


@pytest.mark.parametrize("name", ["0003_gap.sql", "0001_twin.sql", "two.sql"])
def test_migrations_are_counted_without_gap_or_twin(folder: Folder, database: Database, name: str) -> None:
    folder.write(f"migrations/{name}", "select 1")
    with pytest.raises(InputError, match=r"sample_pets/sql/migrations"):
        database.ensure(SCHEMA)


def test_many_may_ensure_at_once(folder: Folder, url: str, database: Database) -> None:
    folder.release_two()
    databases = [database] * 4 if url == "memory://" else [connect(url) for _ in range(4)]
    barrier = threading.Barrier(len(databases))
    errors: list[Exception] = []

    def ensure(mine: Database) -> None:
        barrier.wait()
        try:
            mine.ensure(SCHEMA)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ensure, args=(mine,)) for mine in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mine in databases if url != "memory://" else []:
        mine.close()
    assert errors == []
    assert version(database) == 2
