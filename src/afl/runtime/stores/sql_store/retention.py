"""What is removed once it is old, in SQL: runs with all that belongs to them, and tasks that belong to none."""

from __future__ import annotations

from functools import partial

from afl.kernel.clock import wall_ms
from afl.kernel.database import Query, Transaction
from afl.runtime.persistence.retention import UNTOLD_MS
from afl.runtime.stores.sql_store.tables import Q, Tables
from afl.runtime.stores.sql_store.usage import forget


class RetentionTables(Tables):
    """The RetentionStore protocol."""

    def delete_runs(self, ended_before: int, limit: int) -> int:
        return self.database.write(partial(_delete_runs, before=ended_before, limit=limit))

    def delete_tasks(self, ended_before: int, limit: int) -> int:
        return self.database.write(partial(_delete_loose_tasks, before=ended_before, limit=limit))

    def delete_logs(self, written_before: int, limit: int) -> int:
        return self._delete(Q.delete_loose_logs, written_before, limit)

    def count_old_tasks(self, ended_before: int) -> int:
        found: int = self.database.select(Q.count_loose_tasks, before=ended_before)[0]["found"]
        return found

    def _delete(self, query: Query, before: int, limit: int) -> int:
        return len(self.database.atomic(query, before=before, limit=limit))


def _delete_loose_tasks(tx: Transaction, *, before: int, limit: int) -> int:
    deleted = tx.all(Q.delete_loose_tasks, before=before, limit=limit)
    tx.many(
        Q.delete_task_attempts, [{"workflow_id": row["workflow_id"], "uuid": row["uuid"]} for row in deleted]
    )
    return len(deleted)


def _delete_runs(tx: Transaction, *, before: int, limit: int) -> int:
    ended = tx.all(Q.ended_runs, before=before, long_ago=wall_ms() - UNTOLD_MS, limit=limit)
    ids = [row["workflow_id"] for row in ended]
    if ids:
        for query in (
            Q.delete_run_steps,
            Q.delete_run_events,
            Q.delete_run_tasks,
            Q.delete_run_attempts,
            Q.delete_run_logs,
            Q.delete_run_inputs,
            Q.delete_runs,
        ):
            tx.run(query, ids=ids)
        tx.run(Q.delete_expired_locks)
        forget(tx, ids)
        tx.run(Q.delete_runner_records, ids=[row["runner_id"] for row in ended if row["runner_id"]])
    return len(ids)
