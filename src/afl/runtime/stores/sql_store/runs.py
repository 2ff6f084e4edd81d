"""Runs in SQL: who holds them, what operators do to them, and when they are removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.kernel.database import Query, Transaction
from afl.kernel.errors import HeldError
from afl.kernel.notify import Notifications
from afl.kernel.presence import Life
from afl.runtime.entities import (
    AttemptOutcome,
    RunDefinition,
    RunnerDefinition,
    RunnerState,
    RunOutcome,
    attempt_of,
    child_via,
    labels,
)
from afl.runtime.persistence.history import HistoryKind
from afl.runtime.persistence.runs import UNTOLD_MS
from afl.runtime.persistence.topics import (
    CANCEL_TOPIC,
    ELSEWHERE_TOPIC,
    RUNS_TOPIC,
    history_topic,
    run_topic,
    tasks_topic,
)
from afl.runtime.stores.sql_store.history import append_history
from afl.runtime.stores.sql_store.rows import outcome_from, read_inputs, run_from, run_params, runner_from
from afl.runtime.stores.sql_store.tables import Q, Tables
from afl.runtime.stores.sql_store.task_rows import task_from, write_attempts
from afl.runtime.stores.sql_store.tasks import lock_keys, promote
from afl.runtime.stores.sql_store.usage_tables import forget
from afl.runtime.stores.store_base import run_event_text
from afl.runtime.types import WorkflowId


class RunTables(Tables):
    """The RunStore and RunnerStore protocols."""

    def get_run(self, workflow_id: WorkflowId) -> RunDefinition | None:
        rows = self.database.select(Q.get_run, workflow_id=workflow_id)
        return run_from(rows[0]) if rows else None

    def get_runs(self, *, state: str | None = None, limit: int = 100) -> list[RunDefinition]:
        return [run_from(row) for row in self.database.select(Q.get_runs, state=state, limit=limit)]

    def get_outcomes(self, workflow_ids: Sequence[WorkflowId]) -> list[RunOutcome]:
        rows = self.database.select(Q.get_outcomes, ids=list(workflow_ids)) if workflow_ids else []
        return [outcome_from(row) for row in rows]

    def insert_run(self, run: RunDefinition) -> bool:
        return self.notifying(lambda tx, notifications: self.insert_run_in(tx, notifications, run))

    def insert_run_in(self, tx: Transaction, notifications: Notifications, run: RunDefinition) -> bool:
        """`insert_run` as part of a transaction."""
        inserted = self.insert_run_row(tx, run)
        if inserted:
            notifications.add(tx, RUNS_TOPIC)
        return inserted

    def insert_run_row(self, tx: Transaction, run: RunDefinition) -> bool:
        """A new run with its inputs; False if there is one of that id, but for one that the same step started."""
        if not tx.run(Q.insert_run, **run_params(run), lease_ms=self.run_lease_ms):
            return False
        write_start(tx, run)
        return True

    def get_due_runs(self, limit: int = 100) -> list[WorkflowId]:
        return [row["workflow_id"] for row in self.database.select(Q.get_due_runs, limit=limit)]

    def take_run(self, workflow_id: WorkflowId, *, lease_ms: int) -> RunDefinition | None:
        presence = self.database.presence
        while True:
            taken = self._take(workflow_id, lease_ms)
            if taken is not None:
                return taken
            run = self.get_run(workflow_id)
            if run is None or run.is_over or run.state == RunnerState.PAUSED:
                return run
            if run.owner and presence.proof(run.owner) is Life.DEAD:
                taken = self._take(workflow_id, lease_ms, instead_of=run)
                if taken is not None:
                    return taken
            elif run.owner:
                raise HeldError(f"run {workflow_id} is held by {presence.describe(run.owner)}")

    def take_runs(self, workflow_ids: Sequence[WorkflowId], *, lease_ms: int) -> list[RunDefinition]:
        rows = self.database.atomic(
            Q.take_runs, durable=False, ids=list(workflow_ids), owner=self.owner_id, lease_ms=lease_ms
        )
        runs = [run_from(row) for row in rows]
        new = {run.workflow_id: run for run in runs if run.state == RunnerState.CREATED}
        for row in self.database.select(Q.get_inputs, ids=list(new)) if new else []:
            read_inputs(new[row["workflow_id"]], row["inputs"])
        return runs

    def _take(
        self, workflow_id: WorkflowId, lease_ms: int, instead_of: RunDefinition | None = None
    ) -> RunDefinition | None:
        rows = self.database.atomic(
            Q.take_run,
            durable=False,
            workflow_id=workflow_id,
            owner=self.owner_id,
            lease_ms=lease_ms,
            holder=instead_of.owner if instead_of is not None else "",
            epoch=instead_of.epoch if instead_of is not None else -1,
        )
        return run_from(rows[0]) if rows else None

    def release_run(self, run: RunDefinition) -> None:
        self.database.execute(Q.release_run, workflow_id=run.workflow_id, owner=run.owner, epoch=run.epoch)

    def get_runner(self, uuid: str) -> RunnerDefinition | None:
        rows = self.database.select(Q.get_runner, uuid=uuid)
        return runner_from(rows[0]) if rows else None

    def save_runner(self, runner: RunnerDefinition) -> None:
        record = codec.encode(runner, what=f"runner {runner.uuid}")
        self.database.execute(
            Q.save_runner,
            uuid=runner.uuid,
            workflow_id=runner.workflow_id,
            state=runner.state,
            start_time=runner.start_time,
            end_time=runner.end_time,
            duration=runner.duration,
            record=record,
        )

    def update_runner_state(self, uuid: str, state: str) -> bool:
        return bool(self.database.execute(Q.update_runner_state, uuid=uuid, state=state))

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]:
        return [runner_from(row) for row in self.database.select(Q.get_runners_by_state, state=state)]

    def get_runners_by_workflow(self, workflow_id: WorkflowId) -> list[RunnerDefinition]:
        rows = self.database.select(Q.get_runners_by_workflow, workflow_id=workflow_id)
        return [runner_from(row) for row in rows]

    def get_all_runners(self, limit: int = 100) -> list[RunnerDefinition]:
        return [runner_from(row) for row in self.database.select(Q.get_all_runners, limit=limit)]


def write_start(tx: Transaction, run: RunDefinition) -> None:
    """What a run is started with, beside its row."""
    if run.inputs:
        inputs = codec.encode(run.inputs, what="the input map")
        tx.run(Q.insert_inputs, workflow_id=run.workflow_id, inputs=inputs)
    for label in labels(run.tags):
        tx.run(Q.insert_tag, tag=label, workflow_id=run.workflow_id)


def write_tags(tx: Transaction, run: RunDefinition, changed: Iterable[tuple[str, str]]) -> None:
    """The tags of a run, of which some were added or have another value."""
    tx.run(Q.set_tags, workflow_id=run.workflow_id, tags=codec.encode(run.tags, what="the tags"))
    for key, value in changed:
        tx.run(Q.delete_tag, workflow_id=run.workflow_id, prefix=f"{key}=")
        tx.run(Q.insert_tag, workflow_id=run.workflow_id, tag=f"{key}={value}")


class ChildRunTables(Tables):
    """The ChildRunStore protocol."""

    def get_children(
        self, parent: str, *, states: Sequence[str] = (), limit: int = 100
    ) -> list[RunDefinition]:
        asked = {"states": list(states), "any_state": int(not states), "limit": limit}
        return [run_from(row) for row in self.database.select(Q.get_children, **_below(parent), **asked)]

    def count_children(self, parent: str) -> dict[str, int]:
        rows = self.database.select(Q.count_children, **_below(parent))
        return {row["state"]: row["found"] for row in rows}

    def get_unsettled_children(self, limit: int = 100) -> list[WorkflowId]:
        rows = [*self.database.select(Q.untold_children, limit=limit)]
        rows += self.database.select(Q.unwanted_children, limit=limit)
        return [row["workflow_id"] for row in rows][:limit]

    def parent_told(self, child: RunDefinition) -> bool:
        def work(tx: Transaction) -> bool:
            tx.one(
                Q.run_state, workflow_id=child.workflow_id
            )  # the tasks as they are when nobody writes this run
            told = {"workflow_id": child.workflow_id, "via": child_via(child.workflow_id)}
            return bool(tx.run(Q.parent_told, **told))

        return self.database.write(work)


def _below(parent: str) -> dict[str, str]:
    """Where the steps of a run, or a step and those below it, stand in the order of ids."""
    return {"parent": parent, "beyond": f"{parent}0"}  # the zero comes after the slash


class ControlTables(Tables):
    """The ControlStore protocol."""

    def pause_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        return self.notifying(partial(_pause, workflow_id=workflow_id, reason=reason))

    def unpause_run(self, workflow_id: WorkflowId) -> bool:
        return self.notifying(partial(_unpause, workflow_id=workflow_id))

    def cancel_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        return self.notifying(partial(_cancel, workflow_id=workflow_id, reason=reason))


def _pause(tx: Transaction, notifications: Notifications, *, workflow_id: str, reason: str) -> bool:
    row = tx.one(Q.pause_run, workflow_id=workflow_id, reason=reason, updated=wall_ms())
    if row is None:
        return False
    tx.run(Q.update_runner_state, uuid=row["runner_id"], state=row["state"])
    keys = _keys(tx, workflow_id)
    lock_keys(tx, keys)
    tx.run(Q.pause_tasks, workflow_id=workflow_id, updated=wall_ms())
    promote(tx, keys, notifications)
    append_history(tx, workflow_id, run_event_text(HistoryKind.RUN_PAUSED, reason))
    notifications.add(tx, run_topic(workflow_id))
    notifications.add(tx, history_topic(workflow_id))
    return True


def _unpause(tx: Transaction, notifications: Notifications, *, workflow_id: str) -> bool:
    row = tx.one(Q.unpause_run, workflow_id=workflow_id, updated=wall_ms())
    if row is None:
        return False
    tx.run(Q.update_runner_state, uuid=row["runner_id"], state=row["state"])
    lock_keys(tx, _keys(tx, workflow_id))
    for row in tx.all(Q.unpause_tasks, workflow_id=workflow_id, updated=wall_ms()):
        if not row["via"]:
            notifications.add(tx, tasks_topic(row["task_list_name"]))
    promote(tx, _keys(tx, workflow_id), notifications)
    append_history(tx, workflow_id, run_event_text(HistoryKind.RUN_RESUMED))
    notifications.add(tx, history_topic(workflow_id))
    notifications.add(tx, RUNS_TOPIC)
    notifications.add(tx, ELSEWHERE_TOPIC)
    return True


def _cancel(tx: Transaction, notifications: Notifications, *, workflow_id: str, reason: str) -> bool:
    error = codec.encode({"message": reason, "error_type": "Canceled"})
    changed = {"workflow_id": workflow_id, "error": error, "updated": wall_ms()}
    row = tx.one(Q.cancel_run, reason=reason, **changed)
    if row is None:
        return False
    keys = _keys(tx, workflow_id)
    lock_keys(tx, keys)
    running = [task_from(row) for row in tx.all(Q.running_tasks_of_run, workflow_id=workflow_id)]
    tx.run(Q.cancel_tasks, **changed)
    write_attempts(
        tx,
        notifications,
        [attempt_of(task, AttemptOutcome.CANCELED, ended=wall_ms(), error=reason) for task in running],
    )
    tx.run(Q.delete_marks, workflow_id=workflow_id)
    if row["runner_id"]:
        ended = {"state": RunnerState.CANCELED, "ended": wall_ms(), "workflow_id": workflow_id}
        tx.run(Q.end_runner, uuid=row["runner_id"], **ended)
    promote(tx, keys, notifications)
    append_history(tx, workflow_id, run_event_text(HistoryKind.RUN_CANCELED, reason))
    notifications.add(tx, CANCEL_TOPIC)
    notifications.add(tx, history_topic(workflow_id))
    notifications.add(tx, run_topic(workflow_id))
    return True


def _keys(tx: Transaction, workflow_id: str) -> list[str]:
    return [row["concurrency_key"] for row in tx.all(Q.open_keys, workflow_id=workflow_id)]


class RetentionTables(Tables):
    """The RetentionStore protocol."""

    def delete_runs(self, ended_before: int, limit: int, among: Sequence[str] | None = None) -> int:
        return self.database.write(partial(_delete_runs, before=ended_before, limit=limit, among=among))

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


def _delete_runs(tx: Transaction, *, before: int, limit: int, among: Sequence[str] | None) -> int:
    asked = {"before": before, "long_ago": wall_ms() - UNTOLD_MS, "limit": limit}
    query = Q.ended_runs if among is None else Q.ended_runs_among
    ended = tx.all(query, ids=list(among or ()), **asked)
    ids = [row["workflow_id"] for row in ended]
    if ids:
        for query in (
            Q.delete_run_steps,
            Q.delete_run_events,
            Q.delete_run_tasks,
            Q.delete_run_attempts,
            Q.delete_run_signals,
            Q.delete_run_logs,
            Q.delete_run_published,
            Q.delete_run_inputs,
            Q.delete_run_tags,
            Q.delete_run_history,
            Q.delete_runs,
        ):
            tx.run(query, ids=ids)
        tx.run(Q.delete_expired_locks)
        tx.run(Q.delete_rates)
        forget(tx, ids)
        tx.run(Q.delete_runner_records, ids=[row["runner_id"] for row in ended if row["runner_id"]])
    return len(ids)
