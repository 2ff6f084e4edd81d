"""A store of an earlier principal is brought forward, to the same tables as a fresh one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.databases import fresh_postgres_database
from support.fleet_stores import Keeper

from afl.fleet.principal import runs
from afl.fleet.principal.store import SCHEMA, VIEWS
from afl.kernel.database import Database, Transaction, connect
from afl.kernel.database.queries import Query
from afl.kernel.database.schema import Q as KERNEL
from afl.kernel.database.structure import structure


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    """Two empty ones of a kind."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            urls = [f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/fresh.db"]
        else:
            server = request.getfixturevalue("postgres_url")
            urls = [stack.enter_context(fresh_postgres_database(server)) for _ in range(2)]
        old, fresh = (stack.enter_context(connect(url)) for url in urls)
        yield old, fresh


def first_release(tx: Transaction, database: Database) -> None:
    tx.run(KERNEL.create_schema_table)
    for statement in [*SCHEMA.migrations(database.dialect)[1], *VIEWS.fresh(database.dialect)]:
        tx.run(statement)
    for schema in (SCHEMA, VIEWS):
        tx.run(KERNEL.set_schema_version, component=schema.name, version=1)


# A run with a key that agents of the reference do not know.
_QUEUED = """insert into fleet_runs (
    run_id, workflow_id, workflow_name, workflow, params, instance_id, origin, status, requeues, created_at
) values ('queued', 'w', 'W', '{"timeout":1.0}', '{}', 'queued', 'test', 'PENDING', 0, 1)"""
QUEUE = Query("queue", sqlite=_QUEUED, postgres=_QUEUED)


def _taken(keeper: Keeper) -> str:
    run = keeper.claim("i")
    assert run is not None
    return str(run["run_id"])


def test_the_first_release_becomes_this_one(databases: tuple[Database, Database]) -> None:
    old, fresh = databases
    old.write(lambda tx: first_release(tx, old))
    old.write(lambda tx: tx.run(QUEUE))
    climbed = Keeper(old)
    Keeper(fresh)
    assert structure(old) == structure(fresh)
    assert climbed.change(lambda change: runs.claim(change, "old", "old", old=True)) is None
    assert _taken(climbed) == "queued"
    assert climbed.enqueue("a")
    assert _taken(climbed) == "a"
