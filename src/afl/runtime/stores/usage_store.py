"""The use of models that a store keeps."""

from __future__ import annotations

from afl.kernel.errors import CapabilityError
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.usage import BudgetStore, UsageStore
from afl.runtime.stores.mongo_connection import mongo_connection
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.stores.sql_store.usage import SqlUsage


def usage_store(store: PersistenceAPI) -> UsageStore | None:
    """The use of models in a store; None for one that is not ours and keeps none."""
    return SqlUsage(store.database) if isinstance(store, SqlStore) else _in_mongo(store)


def budget_store(store: PersistenceAPI) -> BudgetStore:
    """The budgets in a store; CapabilityError where there are none."""
    kept = usage_store(store)
    budgets = None if kept is None else kept.budgets
    if budgets is None:
        raise CapabilityError(
            "this store keeps no budgets; use SQLite or PostgreSQL (sqlite:///... or postgresql://...)"
        )
    return budgets


def _in_mongo(store: object) -> UsageStore | None:
    connection = mongo_connection(store)
    if connection is None:
        return None
    from afl.runtime.stores.mongo.usage import MongoUsage  # noqa: PLC0415  needs an extra

    return MongoUsage(connection)
