"""The SQL store as a whole, and its heart: the fenced, atomic commit of an iteration."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from afl.kernel.database import Database, Query, Transaction
from afl.kernel.errors import AgentFlowError, FencedError, PayloadError, StoreConflict
from afl.kernel.notify import Notifications
from afl.runtime.entities import (
    RunDefinition,
    failure_logs,
)
from afl.runtime.persistence.changes import IterationChanges, subtree
from afl.runtime.persistence.history import history_text
from afl.runtime.stores.sql_store.claims import ClaimTables
from afl.runtime.stores.sql_store.history import HistoryTables, append_history
from afl.runtime.stores.sql_store.inspection import CensusTables, InspectionTables, PulseTables
from afl.runtime.stores.sql_store.rows import event_row, run_params, step_row, step_values
from afl.runtime.stores.sql_store.run_lists import RunListTables
from afl.runtime.stores.sql_store.runs import (
    ChildRunTables,
    ControlTables,
    RetentionTables,
    RunTables,
    write_start,
    write_tags,
)
from afl.runtime.stores.sql_store.servers import FlowTables, LockTables, LogTables, ServerTables, log_row
from afl.runtime.stores.sql_store.signals import SignalTables
from afl.runtime.stores.sql_store.steps import EventTables, PublishedTables, StepTables, published_row
from afl.runtime.stores.sql_store.tables import SCHEMA, Q
from afl.runtime.stores.sql_store.task_rows import AttemptTables, TaskRows
from afl.runtime.stores.sql_store.tasks import ElsewhereTables, TaskTables, TimerTables, close_all, promote
from afl.runtime.stores.sql_store.usage_tables import SCHEMA as USAGE_SCHEMA
from afl.runtime.types import EventId, StepId

_log = logging.getLogger(__name__)


class SqlStore(
    StepTables,
    EventTables,
    PublishedTables,
    HistoryTables,
    TaskTables,
    AttemptTables,
    ClaimTables,
    ElsewhereTables,
    TimerTables,
    SignalTables,
    RunTables,
    RunListTables,
    ChildRunTables,
    ControlTables,
    RetentionTables,
    FlowTables,
    ServerTables,
    InspectionTables,
    LockTables,
    LogTables,
    PulseTables,
    CensusTables,
):
    """PersistenceAPI over the kernel's database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.ensure(SCHEMA)
        database.ensure(USAGE_SCHEMA)
        self.ensure_search()

    def commit(self, changes: IterationChanges) -> None:
        self._write_batch([changes])

    def commit_all(self, batch: Sequence[IterationChanges]) -> list[AgentFlowError | None]:
        try:
            if len(batch) == 1:
                self.commit(batch[0])
            elif batch:
                self._write_batch(batch)
            return [None] * len(batch)
        except (FencedError, PayloadError, StoreConflict) as error:
            if len(batch) == 1:
                return [error]
            _log.debug("one of %d commits was refused; storing them one by one", len(batch))
        return super().commit_all(batch)

    def _write_batch(self, batch: Sequence[IterationChanges]) -> None:
        """All of them in one transaction."""
        self._write_rows(CommitRows(batch))

    def _write_rows(self, rows: CommitRows) -> None:
        def work(tx: Transaction, notifications: Notifications) -> None:
            self._write(tx, rows)
            promote(tx, rows.keys, notifications)
            for topic in sorted(rows.topics):
                notifications.add(tx, topic)

        self.notifying(work)

    def _write(self, tx: Transaction, rows: CommitRows) -> None:
        for run in rows.new_runs:
            self._write_run(tx, Q.insert_run, run)
            write_start(tx, run)
        for run in rows.runs:
            self._write_run(tx, Q.update_run, run)
        for child in rows.children:
            if not self.insert_run_row(tx, child):
                raise FencedError(
                    f"the id {child.workflow_id} of a child run is that of another run; nothing was written"
                )
        if rows.created_steps:
            tx.many(Q.insert_step, rows.created_steps)
        if rows.updated_steps:
            tx.many(Q.update_step, rows.updated_steps)
        if rows.consumed_events:
            tx.run(Q.delete_events, ids=rows.consumed_events)
        tasks = rows.tasks
        if tasks.created:
            tx.many(Q.insert_task, [{**task, "lease_ms": self.lease_ms} for task in tasks.created])
        if tasks.policies:
            tx.many(Q.set_policy, tasks.policies)
        if tasks.elsewhere:
            tx.many(Q.set_elsewhere, tasks.elsewhere)
        if tasks.closed and not close_all(tx, tasks.closed):
            raise FencedError("a task is no longer held; nothing was written")
        if tasks.attempts:
            tx.many(Q.insert_attempt, tasks.attempts)
        if rows.created_events:
            tx.many(Q.insert_event, rows.created_events)
        if rows.updated_events:
            tx.many(Q.upsert_event, rows.updated_events)
        if rows.published:
            tx.many(Q.publish, rows.published)
        for run, changed in rows.tags:
            write_tags(tx, run, changed.items())
        for workflow_id, events in rows.history:
            append_history(tx, workflow_id, events)
        if rows.logs:
            tx.many(Q.insert_log, rows.logs)
        if rows.removed:
            for query in (Q.remove_attempts, Q.remove_tasks, Q.remove_events, Q.remove_steps):
                tx.many(query, rows.removed)

    def _write_run(self, tx: Transaction, write: Query, run: RunDefinition) -> None:
        if not tx.run(write, **run_params(run), lease_ms=self.run_lease_ms):
            raise FencedError(
                f"run {run.workflow_id} was taken over by another evaluator; nothing was written"
            )
        if run.is_over and run.runner_id:
            tx.run(
                Q.end_runner,
                uuid=run.runner_id,
                state=run.state,
                ended=run.ended,
                workflow_id=run.workflow_id,
            )

    def close(self) -> None:
        self._close_notifier()
        self.database.close()


class CommitRows:
    """The rows of one commit or of several, by table.

    They are made before the transaction begins: encoding takes longer than writing.
    """

    def __init__(self, batch: Iterable[IterationChanges]) -> None:
        self.new_runs: list[RunDefinition] = []
        self.runs: list[RunDefinition] = []
        self.children: list[RunDefinition] = []
        self.tags: list[tuple[RunDefinition, dict[str, str]]] = []  # those that are other ones, by run
        self.history: list[tuple[str, str]] = []
        self.created_steps: list[tuple[Any, ...]] = []
        self.updated_steps: list[tuple[Any, ...]] = []
        self.consumed_events: list[EventId] = []
        self.created_events: list[tuple[Any, ...]] = []
        self.updated_events: list[tuple[Any, ...]] = []
        self.tasks = TaskRows()
        self.published: list[dict[str, Any]] = []
        self.logs: list[tuple[Any, ...]] = []
        self.removed: list[dict[str, str]] = []
        self.keys: set[str] = set()
        self.topics: set[str] = set()
        for changes in batch:
            self._add(changes)

    def _add(self, changes: IterationChanges) -> None:
        if changes.run is not None:
            self._add_run(changes.run, changes)
        self.children += changes.created_runs
        created = {step.id for step in changes.created_steps}
        self.created_steps += map(step_row, changes.created_steps)
        self.updated_steps += [step_values(step) for step in changes.updated_steps if step.id not in created]
        self.consumed_events += changes.consumed_events
        self.published += map(published_row, changes.published.values())
        self.logs += map(log_row, changes.logs)
        self._add_tasks(changes)
        self.removed += map(_removal, changes.removed)

    def _add_run(self, run: RunDefinition, changes: IterationChanges) -> None:
        (self.new_runs if changes.new_run else self.runs).append(run)
        if changes.tags and not changes.new_run:  # a new run's are written with it
            self.tags.append((run, changes.tags))
        if changes.history:
            self.history.append((run.workflow_id, history_text(changes.history)))

    def _add_tasks(self, changes: IterationChanges) -> None:
        tasks = (*changes.created_tasks, *changes.updated_tasks)
        attempts = self.tasks.add(changes.created_tasks, changes.updated_tasks)
        self.logs += map(log_row, failure_logs(attempts))
        self.keys.update(task.concurrency_key for task in tasks if task.concurrency_key)
        events = {task.uuid for task in tasks}  # a task is its own event
        self.created_events += [event_row(each) for each in changes.created_events if each.id not in events]
        self.updated_events += [event_row(each) for each in changes.updated_events if each.id not in events]
        self.topics.update(changes.topics(attempts))


def _removal(step_id: StepId) -> dict[str, str]:
    first, beyond = subtree(step_id)
    return {"workflow_id": step_id.partition("/")[0], "first": first, "beyond": beyond}
