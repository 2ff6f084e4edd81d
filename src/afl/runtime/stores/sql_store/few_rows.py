"""A small commit as single statements: where they travel together, that is quicker than any statement for many rows."""

from __future__ import annotations

from collections.abc import Iterator

from afl.kernel import codec
from afl.kernel.database import FEW, Statement
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.stores.sql_store.run_rows import run_params
from afl.runtime.stores.sql_store.step_rows import step_row, step_values
from afl.runtime.stores.sql_store.tables import Q
from afl.runtime.stores.sql_store.task_rows import closing_params, is_new_plain, task_params

MOST = FEW  # what is larger is better stored by the function


def is_small(changes: IterationChanges) -> bool:
    """Whether there are few rows, and only such as single statements can store."""
    created, updated = changes.created_tasks, changes.updated_tasks
    if changes.run is None or changes.step_count + len(created) + len(updated) > MOST:
        return False
    if changes.consumed_events or changes.logs:
        return False
    if not all(map(is_new_plain, created)) or any(task.concurrency_key for task in updated):
        return False
    if not changes.created_events and not changes.updated_events:
        return True
    tasks = {task.uuid for task in (*created, *updated)}  # their own events
    return all(event.id in tasks for event in (*changes.created_events, *changes.updated_events))


def statements(
    changes: IterationChanges, run: RunDefinition, lease_ms: int, run_lease_ms: int
) -> Iterator[Statement]:
    """What a small commit writes, the fence first."""
    yield from _of_run(run, run_lease_ms, new=changes.new_run)
    created = {step.id for step in changes.created_steps}
    for step in changes.updated_steps:
        if step.id not in created:
            yield Statement(Q.update_step, step_values(step))
    for task in changes.updated_tasks:
        held = bool(task.owner)
        yield Statement.of(Q.close_held_task if held else Q.close_task, closing_params(task), must_hit=held)
    for step in changes.created_steps:
        yield Statement(Q.insert_step, step_row(step))
    for task in changes.created_tasks:
        yield Statement.of(Q.insert_task, {**task_params(task), "lease_ms": lease_ms})


def _of_run(run: RunDefinition, lease_ms: int, *, new: bool) -> Iterator[Statement]:
    columns = {**run_params(run), "lease_ms": lease_ms}
    yield Statement.of(Q.insert_run if new else Q.update_run, columns, must_hit=True)
    if new and run.inputs:
        yield Statement(Q.insert_inputs, (run.workflow_id, codec.encode(run.inputs, what="the input map")))
    if run.is_over and run.runner_id:
        yield Statement.of(Q.end_runner, {**columns, "uuid": run.runner_id})
