"""The PostgreSQL store: as the SQL store, with a commit that is one call and so one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Schema, connect
from afl.kernel.errors import FencedError
from afl.runtime.changes import IterationChanges
from afl.runtime.sql_store import SqlStore
from afl.runtime.sql_store.rows import EVENT_COLUMNS, LOG_COLUMNS, STEP_COLUMNS, STEP_VALUES, run_params
from afl.runtime.sql_store.store import ChangeRows
from afl.runtime.sql_store.tables import Q

_FUNCTIONS = Schema("afl.runtime", "sql/functions", component="runtime-functions")
_NO_LIMIT = 1 << 40  # each value was held to its limit when its row was made


class PostgresStore(SqlStore):
    """`postgresql://...`; needs the extra `postgres`."""

    def __init__(self, url: str) -> None:
        super().__init__(connect(url))
        self.database.ensure(_FUNCTIONS)

    def commit(self, changes: IterationChanges) -> None:
        if changes.run is None:  # without a run there is no fence to put first
            super().commit(changes)
            return
        rows, run = ChangeRows(changes), changes.run
        answer = self.database.atomic(
            Q.commit_changes,
            run=_json({**run_params(run, new=changes.new_run), "lease_until": 0}),
            new=changes.new_run,
            lease_ms=self.lease_ms,
            over=run.is_over,
            steps=_records(STEP_COLUMNS, rows.created_steps),
            old_steps=_records(STEP_VALUES, rows.updated_steps),
            consumed=list(changes.consumed_events) or None,
            events=_records(EVENT_COLUMNS, [*rows.created_events, *rows.updated_events]),
            tasks=_json(rows.created_tasks) if rows.created_tasks else None,
            closed=_json(rows.updated_tasks) if rows.updated_tasks else None,
            logs=_records(LOG_COLUMNS, rows.logs),
        )
        if not answer[0]["held"]:
            raise FencedError(
                f"run {run.workflow_id} or one of its tasks was taken over; nothing was written"
            )


def _json(value: Any) -> str:
    return codec.encode(value, limit=_NO_LIMIT)


def _records(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str | None:
    """Rows as JSON, which the server turns into records of a table."""
    return _json([dict(zip(names, row, strict=True)) for row in rows]) if rows else None
