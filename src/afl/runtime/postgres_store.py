"""The PostgreSQL store: as the SQL store, with a commit that is one call and so one round trip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Row, Schema, connect
from afl.kernel.errors import FencedError, StoreError
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.stores.sql_store.run_rows import run_params
from afl.runtime.stores.sql_store.servers import LOG_COLUMNS
from afl.runtime.stores.sql_store.step_rows import EVENT_COLUMNS, STEP_VALUES
from afl.runtime.stores.sql_store.store import ChangeRows
from afl.runtime.stores.sql_store.tables import Q

FUNCTIONS = Schema("afl.runtime.stores.sql_store", "sql/functions", component="runtime-functions", base=7)
_FENCED = "afl: fenced"  # what the function raises
_ID = STEP_VALUES.index("id")


class PostgresStore(SqlStore):
    """`postgresql://...`; needs the extra `postgres`."""

    def __init__(self, url: str) -> None:
        super().__init__(connect(url))
        self.database.ensure(FUNCTIONS)

    def commit(self, changes: IterationChanges) -> None:
        run = changes.run
        if run is None:  # no fence to put first
            super().commit(changes)
            return
        rows = ChangeRows(changes)
        if rows.keys:  # to be promoted, which takes more statements
            super().commit(changes)
            return
        described = codec.encode_rows(self._described(changes, run, rows))
        with _fencing(f"run {run.workflow_id} or one of its tasks"):
            self._stored(self.database.atomic(Q.commit_changes, changes=described), rows)

    def _stored(self, answer: Sequence[Row], rows: ChangeRows) -> None:
        if not answer[0]["held"]:
            raise FencedError("the run is no longer ours; nothing was written")
        if rows.topics:
            self.notifier.notified(rows.topics)

    def _commit_together(self, batch: Sequence[IterationChanges]) -> None:
        prepared = [(changes, ChangeRows(changes)) for changes in batch]
        if any(changes.run is None or rows.keys for changes, rows in prepared):
            super()._commit_together(batch)
            return
        calls = [
            self._described(changes, changes.run, rows)
            for changes, rows in prepared
            if changes.run is not None
        ]
        batched = codec.encode_rows(calls)
        with _fencing("something"):
            self.database.atomic(Q.commit_all, batch=batched)
        self.notifier.notified({topic for _, rows in prepared for topic in rows.topics})

    def _described(self, changes: IterationChanges, run: RunDefinition, rows: ChangeRows) -> dict[str, Any]:
        """One document for the function; what is not to be done is left out of it."""
        parts = {
            "new": changes.new_run,
            "over": run.is_over,
            "steps": rows.created_steps,
            "old_steps": {row[_ID]: row for row in rows.updated_steps},
            "consumed": list(changes.consumed_events),
            "events": [
                dict(zip(EVENT_COLUMNS, row, strict=True))
                for row in (*rows.created_events, *rows.updated_events)
            ],
            "tasks": rows.created_tasks,
            "policies": {row["uuid"]: row for row in rows.policies},
            "elsewhere": {row["uuid"]: row for row in rows.elsewhere},
            "closed": {task["uuid"]: task for task in rows.updated_tasks},
            "held": sum(1 for task in rows.updated_tasks if task["owner"]),
            "logs": [dict(zip(LOG_COLUMNS, row, strict=True)) for row in rows.logs],
            "topics": rows.topics if self.notifier.carried_by_commit else (),
        }
        described = {name: part for name, part in parts.items() if part}
        leases = {"lease_ms": self.lease_ms, "run_lease_ms": self.run_lease_ms}
        return described | {"run": {**run_params(run), **_inputs(run, changes)}, **leases}


@contextmanager
def _fencing(what: str) -> Iterator[None]:
    try:
        yield
    except (StoreError, FencedError) as error:
        if isinstance(error, FencedError) or _FENCED in str(error):
            raise FencedError(f"{what} was taken over; nothing was written") from error
        raise


def _inputs(run: RunDefinition, changes: IterationChanges) -> dict[str, str]:
    """The inputs of a new run that has any; they are written once."""
    return (
        {"inputs": codec.encode(run.inputs, what="the input map")} if changes.new_run and run.inputs else {}
    )
