"""The PostgreSQL store: as the SQL store, with a commit that is one call and so one round trip."""

from __future__ import annotations

from collections.abc import Sequence

from afl.kernel import codec
from afl.kernel.database import Schema, Transaction, connect
from afl.runtime.entities import labels
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.stores.sql_store.rows import EVENT_COLUMNS, STEP_VALUES, run_params
from afl.runtime.stores.sql_store.servers import LOG_COLUMNS
from afl.runtime.stores.sql_store.store import CommitRows
from afl.runtime.stores.sql_store.tables import Q

FUNCTIONS = Schema("afl.runtime.stores.sql_store", "sql/functions", component="runtime-functions", base=13)
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
        topics = {topic for rows in commits for topic in rows.topics}
        sent = self.notifier.sent_by_commit()
        self.database.atomic(
            Q.commit, batch=self._described(commits, self.notifier.payloads(sorted(topics)) if sent else ())
        )
        self.notifier.after_commit(topics, sent=sent)

    def _write(self, tx: Transaction, rows: CommitRows) -> None:
        tx.one(Q.commit, batch=self._described([rows], ()))

    def _described(self, commits: Sequence[CommitRows], topics: Sequence[str]) -> str:
        """One document for the function: the rows of all commits, by table. What is not to be done is left out of it.

        A run that is in two of the commits is counted twice, found once, and so refused: a batch has each run once.
        """
        of_runs = [(rows.run, rows) for rows in commits if rows.run is not None]
        runs = {run.workflow_id: run_params(run) for run, _ in of_runs}
        new = [run for run, rows in of_runs if rows.new_run]
        held = [run.workflow_id for run, rows in of_runs if not rows.new_run]
        children = [child for rows in commits for child in rows.created_runs]
        parts = {
            "new_runs": [runs[run.workflow_id] for run in new],
            "runs": {run: runs[run] for run in held},
            "run_count": len(held),
            "children": [run_params(run) for run in children],
            "inputs": {
                run.workflow_id: codec.encode(run.inputs, what="the input map")
                for run in (*new, *children)
                if run.inputs
            },
            "labels": [(label, run.workflow_id) for run in new for label in labels(run.tags)],
            "steps": [row for rows in commits for row in rows.created_steps],
            "old_steps": {row[_ID]: row for rows in commits for row in rows.updated_steps},
            "consumed": [event for rows in commits for event in rows.consumed_events],
            "events": [
                dict(zip(EVENT_COLUMNS, row, strict=True))
                for rows in commits
                for row in (*rows.created_events, *rows.updated_events)
            ],
            "tasks": [task for rows in commits for task in rows.created_tasks],
            "policies": {row["uuid"]: row for rows in commits for row in rows.policies},
            "elsewhere": {row["uuid"]: row for rows in commits for row in rows.elsewhere},
            "closed": {task["uuid"]: task for rows in commits for task in rows.updated_tasks},
            "attempts": [attempt for rows in commits for attempt in rows.attempts],
            "held": sum(1 for rows in commits for task in rows.updated_tasks if task["owner"]),
            "published": [value for rows in commits for value in rows.published],
            "tags": {
                run.workflow_id: {"all": runs[run.workflow_id]["tags"], "changed": dict(rows.tags)}
                for run, rows in of_runs
                if rows.tags
            },
            "history": {run.workflow_id: rows.history for run, rows in of_runs if rows.history},
            "logs": [dict(zip(LOG_COLUMNS, row, strict=True)) for rows in commits for row in rows.logs],
            "removed": [removal for rows in commits for removal in rows.removed],
            "over": {
                run.runner_id: runs[run.workflow_id] for run, _ in of_runs if run.is_over and run.runner_id
            },
            "topics": topics,
        }
        described = {name: part for name, part in parts.items() if part}
        return codec.encode_rows(described | {"lease_ms": self.lease_ms, "run_lease_ms": self.run_lease_ms})
