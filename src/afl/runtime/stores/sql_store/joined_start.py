"""Starting a run inside a transaction of the user's own, on the user's connection to the same database.

`start_statements` yields statements and is sent what each gave, so that it works on a driver that blocks and on one
that is awaited. Nothing is written through the store's own connections: they would wait for the user's transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from afl.kernel import codec
from afl.kernel.database import Query
from afl.kernel.errors import CapabilityError, InputError
from afl.runtime.entities import LogDefinition, RunDefinition, labels
from afl.runtime.persistence.topics import RUNS_TOPIC
from afl.runtime.program.program import Program
from afl.runtime.stores.sql_store.rows import run_params
from afl.runtime.stores.sql_store.servers import log_params
from afl.runtime.stores.sql_store.store import SqlStore
from afl.runtime.stores.sql_store.tables import Q


@dataclass(frozen=True)
class Statement:
    """A statement in the driver's own form."""

    text: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """How many rows it changed, and its first row."""

    count: int
    row: Sequence[Any] | None


Statements = Generator[Statement, Result, RunDefinition | None]


def start_statements(
    store: SqlStore, connection: Any, program: Program, run: RunDefinition, log: LogDefinition
) -> Statements:
    """Store a new run with its program and an entry of the log; returns the run of that id if there is one already."""
    _check_kind(store, connection)
    sqlite = store.database.dialect == "sqlite"

    def statement(query: Query, **parameters: Any) -> Statement:
        return Statement(query.sqlite if sqlite else query.postgres, parameters)

    found = yield statement(Q.database_identity)
    _check_place(store, found.row)
    yield statement(Q.save_program, hash=program.hash, compiled=program.text)
    values = run_params(run)
    inserted = yield statement(Q.start_run, **{name: values[name] for name in Q.start_run.parameters})
    if not inserted.count:
        return (yield from _earlier(statement, run))
    if run.inputs:
        inputs = codec.encode(run.inputs, what="the input map")
        yield statement(Q.insert_inputs, workflow_id=run.workflow_id, inputs=inputs)
    for label in labels(run.tags):
        yield statement(Q.insert_tag, tag=label, workflow_id=run.workflow_id)
    yield statement(Q.insert_log, **log_params(log))
    if not sqlite:  # a commit to an SQLite file is noticed by itself
        yield statement(Q.notify_topic, topic=RUNS_TOPIC)
    return None


def _earlier(statement: Any, run: RunDefinition) -> Statements:
    found = yield statement(Q.started_run, workflow_id=run.workflow_id)
    assert found.row is not None  # its insertion met this row
    name, program_hash, created, parent_step, inputs = found.row
    return RunDefinition(
        run.workflow_id,
        name,
        program_hash,
        created=created,
        parent_step=parent_step,
        inputs=codec.decode_map(inputs),
    )


def _check_kind(store: SqlStore, connection: Any) -> None:
    kind = type(connection).__module__.partition(".")[0]
    sqlite = store.database.dialect == "sqlite"
    if not (isinstance(connection, sqlite3.Connection) if sqlite else kind == "psycopg"):
        expected = "a sqlite3.Connection" if sqlite else "a connection of psycopg"
        raise InputError(
            f"connection= is {type(connection).__module__}.{type(connection).__qualname__}; "
            f"this store takes {expected}"
        )


def _check_place(store: SqlStore, row: Sequence[Any] | None) -> None:
    """InputError if the connection leads to another database than the store."""
    assert row is not None
    if store.database.dialect == "postgres":
        mine = store.database.select(Q.database_identity)[0]
        same = [str(value) for value in row] == [str(mine[name]) for name in ("name", "started")]
    else:
        file = unquote(store.database.url.removeprefix("sqlite:///"))
        same = bool(row[0]) and Path(file).exists() and Path(row[0]).samefile(file)
    if not same:
        raise InputError(
            f"connection= leads to {row[0] or 'a database in memory'}, not to the database of this store"
        )


def joinable(store: Any) -> SqlStore:
    """The store; CapabilityError for one whose runs cannot be part of a transaction of SQL."""
    if not isinstance(store, SqlStore):
        raise CapabilityError("connection= takes a store on SQLite or PostgreSQL")
    return store
