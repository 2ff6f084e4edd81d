"""The metrics of turns: inbox, active turns, waits, and the outbox."""

from __future__ import annotations

from afl.kernel.database import Database, Transaction, queries
from afl.kernel.database.migration import is_made
from afl.kernel.metrics import Sample
from afl.turns.store.tables import SCHEMAS

Q = queries("afl.turns.store", "sql/metrics")


def turn_samples(database: Database) -> list[Sample]:
    """Of all projects of a store; nothing of one that has never seen a turn."""
    if not all(is_made(database, schema) for schema in SCHEMAS):
        return []
    return database.read(_look)


def _look(tx: Transaction) -> list[Sample]:
    inbox, outbox = tx.all(Q.inbox), tx.all(Q.outbox)
    oldest: dict[str, int] = {}
    for row in inbox:
        oldest[row["project_id"]] = max(row["age"], oldest.get(row["project_id"], 0))
    return [
        *(Sample("afl_turn_inbox", row["found"], (row["project_id"], row["status"])) for row in inbox),
        *(Sample("afl_turn_inbox_oldest_seconds", age / 1000, (each,)) for each, age in oldest.items()),
        *(
            Sample("afl_turns_active", row["found"], (row["project_id"], row["status"]))
            for row in tx.all(Q.heads)
        ),
        *(Sample("afl_turn_waits", row["found"], (row["project_id"],)) for row in tx.all(Q.waits)),
        *(Sample("afl_turn_outbox", row["found"], (row["project_id"],)) for row in outbox),
        *(Sample("afl_turn_outbox_lag_seconds", row["age"] / 1000, (row["project_id"],)) for row in outbox),
    ]
