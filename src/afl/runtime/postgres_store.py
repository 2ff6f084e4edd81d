"""The PostgreSQL store: as the SQL store, with a commit that is one call and so one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Schema, Transaction, connect
from afl.runtime.entities import RunDefinition, labels
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.stores.sql_store.rows import EVENT_COLUMNS, STEP_VALUES, run_params
from afl.runtime.stores.sql_store.servers import LOG_COLUMNS
from afl.runtime.stores.sql_store.store import CommitRows
from afl.runtime.stores.sql_store.tables import Q

FUNCTIONS = Schema("afl.runtime.stores.sql_store", "sql/functions", component="runtime-functions", base=12)
_ID = STEP_VALUES.index("id")


class PostgresStore(SqlStore):
    """`postgresql://...`; needs the extra `postgres`."""

    def __init__(self, url: str) -> None:
        super().__init__(connect(url))
        self.database.ensure(FUNCTIONS)

    def _write_batch(self, batch: Sequence[IterationChanges]) -> None:
        commits = [CommitRows(changes) for changes in batch]
        if any(rows.keys for rows in commits):  # to be promoted, which takes more statements
            self._write_rows(commits)
            return
        carried = self.notifier.sent_by_commit()
        described = [
            self._described(rows, self.notifier.payloads(rows.topics) if carried else ()) for rows in commits
        ]
        self.database.atomic(Q.commit, batch=codec.encode_rows(described))
        self.notifier.after_commit({topic for rows in commits for topic in rows.topics}, sent=carried)

    def _write(self, tx: Transaction, rows: CommitRows) -> None:
        tx.one(Q.commit, batch=codec.encode_rows([self._described(rows, ())]))

    def _described(self, rows: CommitRows, topics: Sequence[str]) -> dict[str, Any]:
        """One document for the function; what is not to be done is left out of it."""
        parts = {
            "new": rows.new_run,
            "over": rows.run is not None and rows.run.is_over,
            "run": _run(rows.run, new=rows.new_run),
            "children": [_run(run, new=True) for run in rows.created_runs],
            "steps": rows.created_steps,
            "old_steps": {row[_ID]: row for row in rows.updated_steps},
            "consumed": rows.consumed_events,
            "events": [
                dict(zip(EVENT_COLUMNS, row, strict=True))
                for row in (*rows.created_events, *rows.updated_events)
            ],
            "tasks": rows.created_tasks,
            "policies": {row["uuid"]: row for row in rows.policies},
            "elsewhere": {row["uuid"]: row for row in rows.elsewhere},
            "closed": {task["uuid"]: task for task in rows.updated_tasks},
            "attempts": rows.attempts,
            "held": sum(1 for task in rows.updated_tasks if task["owner"]),
            "published": rows.published,
            "tags": rows.tags,
            "history": rows.history,
            "logs": [dict(zip(LOG_COLUMNS, row, strict=True)) for row in rows.logs],
            "removed": rows.removed,
            "topics": topics,
        }
        described = {name: part for name, part in parts.items() if part}
        return described | {"lease_ms": self.lease_ms, "run_lease_ms": self.run_lease_ms}


def _run(run: RunDefinition | None, *, new: bool) -> dict[str, Any]:
    """The run as the function reads it; the inputs are written once."""
    if run is None:
        return {}
    params = run_params(run)
    if new and run.inputs:
        params["inputs"] = codec.encode(run.inputs, what="the input map")
    if new and run.tags:
        params["labels"] = labels(run.tags)
    return params
