"""The tables of the use of models and budgets: what the store needs of them without their records."""

from __future__ import annotations

from collections.abc import Sequence

from afl.kernel.database import Schema, Transaction, queries

SCHEMA = Schema("afl.runtime.stores.sql_store", "sql/usage", component="usage", base=2)

Q = queries("afl.runtime.stores.sql_store", "sql/usage")


def forget(tx: Transaction, workflow_ids: Sequence[str]) -> None:
    """Remove all that is known of the use of these runs, as part of a transaction that removes the runs."""
    for query in (Q.forget_usage, Q.forget_costs, Q.forget_budgets, Q.forget_reservations):
        tx.run(query, ids=list(workflow_ids))
