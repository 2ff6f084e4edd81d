"""What people were alerted to, in SQL: a table of its own, made by the first process that sends alerts."""

from __future__ import annotations

from collections.abc import Sequence

from afl.kernel.clock import wall_ms
from afl.kernel.database import Database, Schema, queries
from afl.runtime.persistence.alerts import FailedRun, OpenQuestion
from afl.runtime.stores.sql_store.tables import via_range

SCHEMA = Schema("afl.runtime.stores.sql_store", "sql/alerts", component="alerts")
Q = queries("afl.runtime.stores.sql_store", "sql/alerts")


class SqlAlerts:
    """The AlertStore protocol."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.ensure(SCHEMA)

    def get_questions(self, limit: int) -> list[OpenQuestion]:
        rows = self._database.select(Q.get_questions, **via_range("human"), limit=limit)
        return [OpenQuestion(row["uuid"], row["via"].partition(":")[2]) for row in rows]

    def get_failures(self, since: int, limit: int) -> list[FailedRun]:
        rows = self._database.select(Q.get_failures, since=since, limit=limit)
        return [FailedRun(row["workflow_id"], row["ended"]) for row in rows]

    def get_alerted(self, destination: str, subjects: Sequence[str]) -> set[str]:
        rows = self._database.select(Q.get_alerted, destination=destination, subjects=list(subjects))
        return {row["subject"] for row in rows}

    def save_alerted(self, destination: str, subjects: Sequence[str]) -> None:
        sent = wall_ms()
        rows = [{"destination": destination, "subject": each, "sent": sent} for each in subjects]
        self._database.write(lambda tx: tx.many(Q.save_alerted, rows))

    def forget_alerted(self, before: int, limit: int) -> int:
        return len(self._database.atomic(Q.forget_alerted, before=before, limit=limit))
