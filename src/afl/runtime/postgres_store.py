"""The PostgreSQL store: as the SQL store, with a commit that is one call and so one round trip."""

from __future__ import annotations

from collections.abc import Sequence

from afl.kernel import codec
from afl.kernel.database import Schema, Transaction, connect
from afl.runtime.entities import labels
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.stores.sql_store.rows import STEP_VALUES, run_params
from afl.runtime.stores.sql_store.store import CommitRows
from afl.runtime.stores.sql_store.tables import Q

FUNCTIONS = Schema("afl.runtime.stores.sql_store", "sql/functions", component="runtime-functions", base=14)
_ID = STEP_VALUES.index("id")


class PostgresStore(SqlStore):
    """`postgresql://...`; needs the extra `postgres`."""

    def __init__(self, url: str) -> None:
        super().__init__(connect(url))
        self.database.ensure(FUNCTIONS)

    def _write_batch(self, batch: Sequence[IterationChanges]) -> None:
        rows = CommitRows(batch)
        if rows.keys:  # to be promoted, which takes more statements
            self._write_rows(rows)
            return
        sent = self.notifier.sent_by_commit()
        payloads = self.notifier.payloads(sorted(rows.topics)) if sent else ()
        described = self._described(rows, payloads)
        try:
            self.database.atomic(Q.commit, batch=described)
        finally:  # it may have committed although the reply was lost, and a needless notification does no harm
            self.notifier.after_commit(rows.topics, sent=sent)

    def _write(self, tx: Transaction, rows: CommitRows) -> None:
        tx.one(Q.commit, batch=self._described(rows, ()))

    def _described(self, rows: CommitRows, topics: Sequence[str]) -> str:
        """One document for the function; what is not to be done is left out of it.

        A batch has each run once. One that is in two of its commits is refused by a count or a key, and `commit_all`
        then stores them one by one.
        """
        runs = {run.workflow_id: run_params(run) for run in rows.runs}
        started = [*rows.new_runs, *rows.children]
        tasks = rows.tasks
        parts = {
            "new_runs": [run_params(run) for run in rows.new_runs],
            "runs": runs,
            "run_count": len(rows.runs),
            "over": {
                run.runner_id: {"state": run.state, "ended": run.ended, "workflow_id": run.workflow_id}
                for run in (*rows.runs, *rows.new_runs)
                if run.is_over and run.runner_id
            },
            "children": [run_params(run) for run in rows.children],
            "inputs": {
                run.workflow_id: codec.encode(run.inputs, what="the input map")
                for run in started
                if run.inputs
            },
            "labels": [(label, run.workflow_id) for run in rows.new_runs for label in labels(run.tags)],
            "tags": {
                run.workflow_id: {"all": runs[run.workflow_id]["tags"], "changed": changed}
                for run, changed in rows.tags
            },
            "steps": rows.created_steps,
            "old_steps": {row[_ID]: row for row in rows.updated_steps},
            "consumed": rows.consumed_events,
            "events": [*rows.created_events, *rows.updated_events],
            "tasks": tasks.created,
            "policies": {row["uuid"]: row for row in tasks.policies},
            "elsewhere": {row["uuid"]: row for row in tasks.elsewhere},
            "closed": {row["uuid"]: row for row in tasks.closed},
            "attempts": tasks.attempts,
            "held": sum(1 for row in tasks.closed if row["owner"]),
            "published": rows.published,
            "history": rows.history,
            "logs": rows.logs,
            "removed": rows.removed,
            "topics": topics,
        }
        described = {name: part for name, part in parts.items() if part}
        return codec.encode_rows(described | {"lease_ms": self.lease_ms, "run_lease_ms": self.run_lease_ms})
