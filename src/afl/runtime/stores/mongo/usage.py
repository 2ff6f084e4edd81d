"""The use of models in MongoDB."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from pymongo import ASCENDING, DESCENDING

from afl.models.exchange import Exchange
from afl.runtime.persistence.usage import BudgetStore, ModelCall, UsageRecord, UsageSum
from afl.runtime.stores.mongo.connection import Connection, Document

_FIELDS = [field.name for field in fields(UsageRecord)]
_ORDER = [("workflow_id", ASCENDING), ("seq", ASCENDING)]


class MongoUsage:
    """The UsageStore protocol."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connection.call(lambda db: db.usage.create_index(_ORDER, name="usage_order_index"))
        connection.call(lambda db: db.usage.create_index([("time", DESCENDING)], name="usage_time_index"))
        connection.call(
            lambda db: db.usage.create_index(
                "time", name="usage_exchange_index", partialFilterExpression={"exchange": {"$exists": True}}
            )
        )

    @property
    def budgets(self) -> BudgetStore | None:
        return None

    def record_usage(self, record: UsageRecord, exchange: Exchange | None = None) -> None:
        document = {**asdict(record), "seq": self._connection.ticket(1).first}
        if exchange is not None:
            document["exchange"] = exchange.encode()
        self._connection.call(lambda db: db.usage.insert_one(document))

    def get_usage(self, workflow_id: str) -> list[UsageRecord]:
        query = {"workflow_id": workflow_id}
        found = self._connection.call(lambda db: list(db.usage.find(query, {"exchange": 0}, sort=_ORDER)))
        return [_usage_record(each) for each in found]

    def get_calls(self, workflow_id: str, step_id: str, limit: int) -> list[ModelCall]:
        query = {"workflow_id": workflow_id, "step_id": step_id}
        found = self._connection.call(lambda db: list(db.usage.find(query, sort=_ORDER, limit=limit)))
        return [
            ModelCall(_usage_record(each), Exchange.decode(each["exchange"]) if "exchange" in each else None)
            for each in found
        ]

    def sum_usage(self, since: int) -> list[UsageSum]:
        tokens = [f"${name}" for name in _FIELDS if name.endswith("_tokens")]
        found = self._grouped(
            since,
            [{"$set": {"workflow": {"$ifNull": [{"$first": "$run.workflow_name"}, ""]}}}],
            {
                "_id": {
                    "day": {"$floor": {"$divide": ["$time", 86_400_000]}},
                    "model": "$model",
                    "workflow": "$workflow",
                },
                "calls": {"$sum": 1},
                "tokens": {"$sum": {"$add": tokens}},
                "cost_usd": {"$sum": {"$ifNull": ["$cost_usd", 0]}},
                "unpriced": {"$sum": {"$cond": [{"$eq": ["$cost_usd", None]}, 1, 0]}},
            },
        )
        sums = [
            UsageSum(
                int(each["_id"]["day"]),
                each["_id"]["model"],
                each["_id"]["workflow"],
                each["calls"],
                each["tokens"],
                float(each["cost_usd"]),
                each["unpriced"],
            )
            for each in found
        ]
        return sorted(sums, key=lambda each: (each.day, each.model, each.workflow))

    def sum_usage_by_tag(self, since: int, limit: int) -> dict[str, float]:
        found = self._grouped(
            since,
            [{"$unwind": "$run"}, {"$unwind": "$run.tags"}],
            {"_id": "$run.tags", "cost": {"$sum": {"$ifNull": ["$cost_usd", 0]}}},
        )
        largest = sorted(found, key=lambda each: (-each["cost"], str(each["_id"])))[:limit]
        return {each["_id"]: float(each["cost"]) for each in largest}

    def _grouped(self, since: int, reshape: list[Document], group: Document) -> list[Document]:
        """Calls since a time, each with its run, grouped."""
        run = {"from": "runs", "localField": "workflow_id", "foreignField": "uuid", "as": "run"}
        stages: list[Document] = [
            {"$match": {"time": {"$gte": since}}},
            {"$lookup": run},
            *reshape,
            {"$group": group},
        ]
        return self._connection.call(lambda db: list(db.usage.aggregate(stages)))

    def forget_exchanges(self, before: int, limit: int) -> int:
        query = {"exchange": {"$exists": True}, "time": {"$lt": before}}

        def forget(db: Any) -> int:
            ids = [each["_id"] for each in db.usage.find(query, {"_id": 1}, sort=[("time", 1)], limit=limit)]
            db.usage.update_many({"_id": {"$in": ids}}, {"$unset": {"exchange": ""}})
            return len(ids)

        return self._connection.call(forget)


def _usage_record(document: Document) -> UsageRecord:
    return UsageRecord(**{name: document[name] for name in _FIELDS})
