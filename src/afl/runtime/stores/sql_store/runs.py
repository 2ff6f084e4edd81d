"""Runs and runner records in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from afl.kernel import codec
from afl.kernel.database import Transaction
from afl.kernel.errors import HeldError
from afl.kernel.notify import Notifications
from afl.kernel.presence import Life
from afl.runtime.entities import RunDefinition, RunnerDefinition, RunnerState
from afl.runtime.persistence.runs import ANY_RUN, RunFilter
from afl.runtime.persistence.topics import RUNS_TOPIC
from afl.runtime.stores.sql_store.run_rows import read_inputs, run_from, run_params, runner_from
from afl.runtime.stores.sql_store.tables import LAST_CHARACTER, Q, Tables
from afl.runtime.types import WorkflowId


class RunTables(Tables):
    """The RunStore and RunnerStore protocols."""

    def get_run(self, workflow_id: WorkflowId) -> RunDefinition | None:
        rows = self.database.select(Q.get_run, workflow_id=workflow_id)
        return run_from(rows[0]) if rows else None

    def get_runs(self, *, state: str | None = None, limit: int = 100) -> list[RunDefinition]:
        return [run_from(row) for row in self.database.select(Q.get_runs, state=state, limit=limit)]

    def find_runs(self, wanted: RunFilter = ANY_RUN) -> list[RunDefinition]:
        asked = {**asdict(wanted), "beyond": wanted.prefix + LAST_CHARACTER, "text": _anywhere(wanted.text)}
        return [run_from(row) for row in self.database.select(Q.find_runs, **asked)]

    def insert_run(self, run: RunDefinition) -> bool:
        return self.notifying(lambda tx, notifications: self.insert_run_in(tx, notifications, run))

    def insert_run_in(self, tx: Transaction, notifications: Notifications, run: RunDefinition) -> bool:
        """`insert_run` as part of a transaction."""
        if not tx.run(Q.insert_run, **run_params(run), lease_ms=self.run_lease_ms):
            return False
        if run.inputs:
            inputs = codec.encode(run.inputs, what="the input map")
            tx.run(Q.insert_inputs, workflow_id=run.workflow_id, inputs=inputs)
        notifications.add(tx, RUNS_TOPIC)
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
        self.database.write(
            lambda tx: tx.run(Q.release_run, workflow_id=run.workflow_id, owner=run.owner, epoch=run.epoch)
        )

    def get_runner(self, uuid: str) -> RunnerDefinition | None:
        rows = self.database.select(Q.get_runner, uuid=uuid)
        return runner_from(rows[0]) if rows else None

    def save_runner(self, runner: RunnerDefinition) -> None:
        record = codec.encode(runner, what=f"runner {runner.uuid}")
        self.database.write(
            lambda tx: tx.run(
                Q.save_runner,
                uuid=runner.uuid,
                workflow_id=runner.workflow_id,
                state=runner.state,
                start_time=runner.start_time,
                end_time=runner.end_time,
                duration=runner.duration,
                record=record,
            )
        )

    def update_runner_state(self, uuid: str, state: str) -> bool:
        return bool(self.database.write(lambda tx: tx.run(Q.update_runner_state, uuid=uuid, state=state)))

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]:
        return [runner_from(row) for row in self.database.select(Q.get_runners_by_state, state=state)]

    def get_runners_by_workflow(self, workflow_id: WorkflowId) -> list[RunnerDefinition]:
        rows = self.database.select(Q.get_runners_by_workflow, workflow_id=workflow_id)
        return [runner_from(row) for row in rows]

    def get_all_runners(self, limit: int = 100) -> list[RunnerDefinition]:
        return [runner_from(row) for row in self.database.select(Q.get_all_runners, limit=limit)]


def _anywhere(text: str) -> str:
    """The pattern of texts that contain this one; empty for any."""
    if not text:
        return ""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text.lower()}%"
