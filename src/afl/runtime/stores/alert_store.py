"""What a store knows of alerts."""

from __future__ import annotations

from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.alerts import AlertStore
from afl.runtime.stores.mongo_connection import mongo_connection
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.stores.sql_store.alerts import SqlAlerts


def alert_store(store: PersistenceAPI) -> AlertStore | None:
    """The alerts in a store; None for one that is not ours and keeps none."""
    if isinstance(store, SqlStore):
        return SqlAlerts(store.database)
    connection = mongo_connection(store)
    if connection is None:
        return None
    from afl.runtime.stores.mongo.alerts import MongoAlerts  # noqa: PLC0415  needs an extra

    return MongoAlerts(connection)
