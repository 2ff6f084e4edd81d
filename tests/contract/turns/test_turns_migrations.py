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


# What earlier releases had of each component; one that is not named had its first version.
RELEASES: dict[int, dict[str, int]] = {1: {}, 2: {"turns": 2, "turns-functions": 2}}


def released(tx: Transaction, database: Database, release: int) -> None:
    """As an earlier release made it."""
    tx.run(KERNEL.create_schema_table)
    for schema in SCHEMAS:
        version = RELEASES[release].get(schema.name, 1)
        migrations = schema.migrations(database.dialect) or {1: schema.fresh(database.dialect)}
        for number in range(1, version + 1):
            for statement in migrations[number]:
                tx.run(statement)
        tx.run(KERNEL.set_schema_version, component=schema.name, version=version)


def tables(database: Database) -> list[str]:
    return [line for line in structure(database) if not line.startswith("function")]


def functions(database: Database) -> dict[str, str]:
    return {row["name"]: row["text"] for row in database.select(FUNCTIONS)}


@pytest.mark.parametrize("release", RELEASES)
def test_an_old_store_gets_the_tables_of_a_fresh_one(urls: tuple[str, str], release: int) -> None:
    with connect(urls[0]) as old, connect(urls[1]) as fresh:
        old.write(lambda tx: released(tx, old, release))
        ensure_tables(old)
        ensure_tables(fresh)
        assert tables(old) == tables(fresh)
        assert len(tables(fresh)) > 100


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("urls", ["postgres"], indirect=True)
def test_an_old_store_keeps_its_functions_beside_the_new_ones(urls: tuple[str, str], release: int) -> None:
    """Processes of the old release go on while others are started anew."""
    with connect(urls[0]) as old, connect(urls[1]) as fresh:
        old.write(lambda tx: released(tx, old, release))
        before = functions(old)
        ensure_tables(old)
        ensure_tables(fresh)
        assert {name for name in before if name.endswith(f"_{release}")}
        assert not {name for name in functions(fresh) if name.endswith(("_1", "_2"))}
        after = functions(old)
        assert before.items() <= after.items() and functions(fresh).items() <= after.items()
