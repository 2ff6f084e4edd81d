"""The use of models in MongoDB. Budgets are for SQL stores."""

from __future__ import annotations

from dataclasses import asdict, fields

from pymongo import ASCENDING

from afl.runtime.persistence.usage import BudgetStore, UsageRecord
from afl.runtime.stores.mongo.connection import Connection

_FIELDS = [field.name for field in fields(UsageRecord)]
_ORDER = [("workflow_id", ASCENDING), ("seq", ASCENDING)]


class MongoUsage:
    """The UsageStore protocol."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connection.call(lambda db: db.usage.create_index(_ORDER, name="usage_order_index"))

    @property
    def budgets(self) -> BudgetStore | None:
        return None

    def record_usage(self, record: UsageRecord) -> None:
        document = {**asdict(record), "seq": self._connection.ticket(1).first}
        self._connection.call(lambda db: db.usage.insert_one(document))

    def get_usage(self, workflow_id: str) -> list[UsageRecord]:
        query = {"workflow_id": workflow_id}
        found = self._connection.call(lambda db: list(db.usage.find(query, sort=_ORDER)))
        return [UsageRecord(**{name: each[name] for name in _FIELDS}) for each in found]
