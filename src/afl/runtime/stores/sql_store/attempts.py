"""Attempts in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter

from afl.kernel.database import Row, Transaction
from afl.kernel.notify import Notifications
from afl.runtime.entities import (
    KEPT_ATTEMPTS,
    AttemptDefinition,
    failure_logs,
    in_order,
)
from afl.runtime.stores.sql_store.servers import append_logs, log_row
from afl.runtime.stores.sql_store.tables import Q, Tables

ATTEMPT_COLUMNS = [field.name for field in fields(AttemptDefinition)]

_attempt_values = attrgetter(*ATTEMPT_COLUMNS)


class AttemptTables(Tables):
    """The AttemptStore protocol."""

    def get_failed_attempts(
        self, workflow_id: str, task_id: str = "", limit: int = 1000
    ) -> list[AttemptDefinition]:
        rows = self.database.select(
            Q.get_failed_attempts, workflow_id=workflow_id, task_id=task_id, limit=limit
        )
        return in_order(map(_attempt_from, rows))


def attempt_row(attempt: AttemptDefinition) -> tuple[object, ...]:
    """All columns of an attempt: ATTEMPT_COLUMNS. A text of PostgreSQL holds no NUL."""
    values: tuple[object, ...] = _attempt_values(attempt)
    return tuple(
        value.replace("\x00", "\\x00") if isinstance(value, str) and "\x00" in value else value
        for value in values
    )


def write_attempts(
    tx: Transaction, notifications: Notifications, attempts: Sequence[AttemptDefinition]
) -> None:
    """Store attempts that ended, and what the logs of their runs say of them; of many keep the first and the newest."""
    if not attempts:
        return
    tx.many(Q.insert_attempt, [attempt_row(each) for each in attempts])
    for each in attempts:
        if each.number > KEPT_ATTEMPTS + 1:
            tx.run(
                Q.trim_attempts,
                workflow_id=each.workflow_id,
                task_id=each.task_id,
                number=each.number - KEPT_ATTEMPTS,
            )
    append_logs(tx, notifications, [log_row(log) for log in failure_logs(attempts)])


def _attempt_from(row: Row) -> AttemptDefinition:
    return AttemptDefinition(**{name: row[name] for name in ATTEMPT_COLUMNS})
