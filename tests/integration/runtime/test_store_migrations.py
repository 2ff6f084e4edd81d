"""A store that an older AgentFlow made is brought forward with what is in it, to the same tables as a fresh one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from support.databases import fresh_postgres_database

from afl.kernel.database import Database, Query, Schema, Transaction, connect
from afl.kernel.database.schema import Q as KERNEL
from afl.kernel.database.schema import replay
from afl.kernel.database.structure import structure
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.sql_store.store import SqlStore
from afl.runtime.sql_store.tables import SCHEMA
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.types import WorkflowId

FUNCTIONS = Schema("afl.runtime", "sql/functions", component="runtime-functions")
OLD_TASK = Query.of("""
    insert into afl_tasks (uuid, name, short_name, runner_id, workflow_id, flow_id, step_id, state, created, updated,
        task_list_name, data_type, data, priority, owner, epoch, lease_until, started, deliveries, deaths, hold,
        failures)
    values (
        :uuid, 'ns.F', 'F', 'r', 'run', 'f', '', :state, 1, 2, 'default', '', '{"n":1}', 3, '', 4, 0, 0, 5, 6, :hold, 7)
""")
RELEASES = (1, 2)
OPTIONS = Query.of("select unnest(reloptions) as option from pg_class where relname = 'afl_tasks'")
FUNCTION_NAMES = Query.of("select proname from pg_proc where proname like 'afl_commit%'")


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


def released(tx: Transaction, database: Database, release: int) -> None:
    """The tables as an earlier release made them, with tasks in them."""
    tx.run(KERNEL.create_schema_table)
    for schema in [SCHEMA, FUNCTIONS] if database.dialect == "postgres" else [SCHEMA]:
        for number in range(1, release + 1):
            for statement in schema.migrations(database.dialect)[number]:
                tx.run(statement)
        tx.run(KERNEL.set_schema_version, component=schema.name, version=release)
    for uuid, state, hold in (("a", "pending", ""), ("b", "pending", "timeout"), ("c", "completed", "")):
        tx.run(OLD_TASK, uuid=uuid, state=state, hold=hold)


def open_store(url: str) -> SqlStore:
    return PostgresStore(url) if url.startswith("postgresql") else SqliteStore(url)


def test_the_migrations_lead_to_the_fresh_tables(urls: tuple[str, str]) -> None:
    with connect(urls[0]) as climbed, connect(urls[1]) as fresh:
        replay(climbed, SCHEMA)
        fresh.ensure(SCHEMA)
        assert structure(climbed) == structure(fresh)
        assert len(structure(fresh)) > 50


@pytest.mark.parametrize("release", RELEASES)
def test_an_old_store_goes_on_with_its_tasks(urls: tuple[str, str], release: int) -> None:
    with connect(urls[0]) as old:
        old.write(lambda tx: released(tx, old, release))
    store = open_store(urls[0])
    try:
        tasks = store.get_all_tasks()
        assert [(t.uuid, t.state, t.hold, t.via, t.bridge) for t in reversed(tasks)] == [
            ("a", "pending", "", "", None),
            ("b", "pending", "timeout", "", None),
            ("c", "completed", "", "", None),
        ]
        assert {(t.priority, t.epoch, t.deliveries, t.deaths, t.failures) for t in tasks} == {(3, 4, 5, 6, 7)}
        claimed = store.claim_task(["F"])
        assert claimed is not None
        assert claimed.data == {"n": 1}
        assert store.hand_over(claimed, "agent:x")
        assert [task.uuid for task in store.find_tasks(hold="elsewhere", via="agent")] == ["a"]
        store.save_task(replace(tasks[0], uuid="d"))
        assert [task.uuid for task in store.get_tasks_by_workflow(WorkflowId("run"))] == ["a", "b", "c", "d"]
    finally:
        store.close()


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("urls", ["postgres"], indirect=True)
def test_processes_of_the_old_release_keep_their_functions(urls: tuple[str, str], release: int) -> None:
    def names(database: Database) -> set[str]:
        return {row["proname"] for row in database.select(FUNCTION_NAMES)}

    with connect(urls[0]) as old:
        old.write(lambda tx: released(tx, old, release))
        before = names(old)
    for url in urls:
        PostgresStore(url).close()
    with connect(urls[0]) as climbed, connect(urls[1]) as fresh:
        assert before | names(fresh) <= names(climbed)
        assert not before & names(fresh)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("urls", ["postgres"], indirect=True)
def test_the_server_cleans_up_behind_the_queue_in_good_time(urls: tuple[str, str], release: int) -> None:
    """After a small part of a large table: every claim reads past what earlier ones left."""
    with connect(urls[0]) as old:
        old.write(lambda tx: released(tx, old, release))
    for url in urls:
        PostgresStore(url).close()
        with connect(url) as database:
            options = {row["option"] for row in database.select(OPTIONS)}
        assert options == {"autovacuum_vacuum_threshold=1000", "autovacuum_vacuum_scale_factor=0.02"}
