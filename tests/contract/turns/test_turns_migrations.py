"""A store that an older AgentFlow made is brought forward, to the same tables and functions as a fresh one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.databases import fresh_postgres_database

from afl.kernel.database import Database, Query, Transaction, connect
from afl.kernel.database.schema import Q as KERNEL
from afl.kernel.database.structure import structure
from afl.turns.tables import SCHEMAS, ensure_tables

FUNCTIONS = Query.of(
    "select p.proname as name, pg_get_functiondef(p.oid) as text from pg_proc as p "
    "join pg_namespace as n on n.oid = p.pronamespace where n.nspname in ('state', 'cardbox')"
)


@pytest.fixture(params=["sqlite", "postgres"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two empty stores of a kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/fresh.db"
        return
    with ExitStack() as stack:
        server = request.getfixturevalue("postgres_url")
        yield (
            stack.enter_context(fresh_postgres_database(server)),
            stack.enter_context(fresh_postgres_database(server)),
        )


def first_version(tx: Transaction, database: Database) -> None:
    """As the first release made it."""
    tx.run(KERNEL.create_schema_table)
    for schema in SCHEMAS:
        migrations = schema.migrations(database.dialect)
        for statement in migrations[1] if migrations else schema.fresh(database.dialect):
            tx.run(statement)
        tx.run(KERNEL.set_schema_version, component=schema.name, version=1)


def tables(database: Database) -> list[str]:
    return [line for line in structure(database) if not line.startswith("function")]


def functions(database: Database) -> dict[str, str]:
    return {row["name"]: row["text"] for row in database.select(FUNCTIONS)}


def test_an_old_store_gets_the_tables_of_a_fresh_one(urls: tuple[str, str]) -> None:
    with connect(urls[0]) as old, connect(urls[1]) as fresh:
        old.write(lambda tx: first_version(tx, old))
        before = tables(old)
        ensure_tables(old)
        ensure_tables(fresh)
        assert before != tables(old) == tables(fresh)
        assert len(tables(fresh)) > 100


@pytest.mark.parametrize("urls", ["postgres"], indirect=True)
def test_an_old_store_has_the_functions_of_both_releases(urls: tuple[str, str]) -> None:
    with connect(urls[0]) as old, connect(urls[1]) as fresh:
        old.write(lambda tx: first_version(tx, old))
        before = functions(old)
        ensure_tables(old)
        ensure_tables(fresh)
        assert functions(old) == before | functions(fresh)
        assert {name for name in before if name.endswith("_1")}
        assert not {name for name in functions(fresh) if name.endswith("_1")}
