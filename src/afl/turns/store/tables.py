"""The tables of turns, and their names in the store."""

from __future__ import annotations

from weakref import WeakSet

from afl.kernel.database import Database, Schema

APPROVALS = Schema("afl.turns.store", "sql/approvals", component="turns-approvals")
SCHEMAS = (
    Schema("afl.turns.store", "sql/spaces", component="turns-spaces"),
    Schema("afl.turns.store", "sql/tables", component="turns", base=2),
    APPROVALS,
    Schema("afl.turns.store", "sql/guards", component="turns-guards", base=2),
    Schema("afl.turns.store", "sql/live_text_tables", component="turns-live-text"),
    Schema("afl.turns.store", "sql/sessions", component="turns-sessions"),
    Schema("afl.turns.store", "sql/budgets", component="turns-budgets"),
    Schema("afl.turns.store", "sql/memory", component="turns-memory"),
    Schema("afl.turns.store", "sql/blob_tables", component="turns-blobs"),
)


_ensured: WeakSet[Database] = WeakSet()  # those whose tables are up to date: a server is asked often


def ensure_tables(database: Database) -> None:
    """Make the tables, or bring them up to date; once for each open database."""
    if database in _ensured:
        return
    for schema in SCHEMAS:
        database.ensure(schema)
    _ensured.add(database)
