"""The PostgreSQL store: as the SQL store, with a commit that is one call and so one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Schema, connect
from afl.kernel.errors import FencedError, StoreError
from afl.runtime.changes import IterationChanges
from afl.runtime.entities import RunDefinition
from afl.runtime.sql_store import SqlStore
from afl.runtime.sql_store.rows import EVENT_COLUMNS, LOG_COLUMNS, STEP_COLUMNS, STEP_VALUES, run_params
from afl.runtime.sql_store.store import ChangeRows
from afl.runtime.sql_store.tables import Q

_FUNCTIONS = Schema("afl.runtime", "sql/functions", component="runtime-functions")
_FENCED = "afl: fenced"  # what the function raises


class PostgresStore(SqlStore):
    """`postgresql://...`; needs the extra `postgres`."""

    def __init__(self, url: str) -> None:
        super().__init__(connect(url))
        self.database.ensure(_FUNCTIONS)

    def commit(self, changes: IterationChanges) -> None:
        rows = ChangeRows(changes)
        if (
            changes.run is None or rows.keys
        ):  # no fence to put first; or keys to promote, which takes more statements
            super().commit(changes)
            return
        try:
            held = self._call(changes, changes.run, rows)
        except StoreError as error:
            if _FENCED not in str(error):
                raise
            held = False
        if not held:
            raise FencedError(
                f"run {changes.run.workflow_id} or one of its tasks was taken over; nothing was written"
            )

    def _commit_together(self, batch: Sequence[IterationChanges]) -> None:
        prepared = [(changes, ChangeRows(changes)) for changes in batch]
        if any(changes.run is None or rows.keys for changes, rows in prepared):
            super()._commit_together(batch)
            return
        calls = [
            self._parameters(changes, changes.run, rows)
            for changes, rows in prepared
            if changes.run is not None
        ]
        try:
            self.database.atomic(Q.commit_all, batch=codec.encode_rows(calls))
        except StoreError as error:
            if _FENCED in str(error):
                raise FencedError("one of several runs was taken over; nothing was written") from error
            raise
        self.bell.rung({topic for _, rows in prepared for topic in rows.topics})

    def _call(self, changes: IterationChanges, run: RunDefinition, rows: ChangeRows) -> bool:
        answer = self.database.atomic(Q.commit_changes, **self._parameters(changes, run, rows))
        if rows.topics:
            self.bell.rung(rows.topics)
        return bool(answer[0]["held"])

    def _parameters(self, changes: IterationChanges, run: RunDefinition, rows: ChangeRows) -> dict[str, Any]:
        return {
            "run": codec.encode_rows({**run_params(run), **_inputs(run, changes)}),
            "new": changes.new_run,
            "lease_ms": self.lease_ms,
            "over": run.is_over,
            "steps": _records(STEP_COLUMNS, rows.created_steps),
            "old_steps": _records(STEP_VALUES, rows.updated_steps),
            "consumed": list(changes.consumed_events) or None,
            "events": _records(EVENT_COLUMNS, [*rows.created_events, *rows.updated_events]),
            "tasks": codec.encode_rows(rows.created_tasks) if rows.created_tasks else None,
            "policies": codec.encode_rows(rows.policies) if rows.policies else None,
            "elsewhere": codec.encode_rows(rows.elsewhere) if rows.elsewhere else None,
            "closed": codec.encode_rows(rows.updated_tasks) if rows.updated_tasks else None,
            "logs": _records(LOG_COLUMNS, rows.logs),
            "topics": rows.topics if rows.topics and self.bell.carried_by_commit else None,
        }


def _inputs(run: RunDefinition, changes: IterationChanges) -> dict[str, str]:
    """The inputs of a new run that has any; they are written once."""
    return (
        {"inputs": codec.encode(run.inputs, what="the input map")} if changes.new_run and run.inputs else {}
    )


def _records(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str | None:
    """Rows as JSON, which the server turns into records of a table."""
    return codec.encode_rows([dict(zip(names, row, strict=True)) for row in rows]) if rows else None
