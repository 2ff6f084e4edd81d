"""A small commit as single statements: where they travel together, that is quicker than any statement for many rows."""

from __future__ import annotations

from collections.abc import Iterator

from afl.kernel import codec
from afl.kernel.database import FEW, Statement
from afl.runtime.changes import IterationChanges
from afl.runtime.entities import RunDefinition
from afl.runtime.sql_store.run_rows import run_params
from afl.runtime.sql_store.store import ChangeRows
from afl.runtime.sql_store.tables import Q

MOST = FEW  # what is larger is better stored by the function


def is_small(changes: IterationChanges, rows: ChangeRows) -> bool:
    """Whether there are few rows, and only such as single statements can store."""
    rare = (rows.keys, rows.logs, rows.policies, rows.elsewhere, rows.created_events, rows.updated_events)
    if changes.run is None or changes.consumed_events or any(rare):
        return False
    steps = len(rows.created_steps) + len(rows.updated_steps)
    return steps + len(rows.created_tasks) + len(rows.updated_tasks) <= MOST


def statements(
    changes: IterationChanges, run: RunDefinition, rows: ChangeRows, lease_ms: int, *, rings: bool
) -> Iterator[Statement]:
    """What a small commit writes, the fence first; `rings`: the doorbell is carried by the commit."""
    yield from _of_run(run, lease_ms, new=changes.new_run)
    for step in rows.created_steps:
        yield Statement(Q.insert_step, step)
    for step in rows.updated_steps:
        yield Statement(Q.update_step, step)
    for task in rows.updated_tasks:
        held = bool(task["owner"])
        yield Statement.of(Q.close_held_task if held else Q.close_task, task, must_hit=held)
    for task in rows.created_tasks:
        yield Statement.of(Q.insert_task, {**task, "lease_ms": lease_ms})
    for topic in rows.topics if rings else ():
        yield Statement(Q.notify, (topic,))


def _of_run(run: RunDefinition, lease_ms: int, *, new: bool) -> Iterator[Statement]:
    columns = {**run_params(run), "lease_ms": lease_ms}
    yield Statement.of(Q.insert_run if new else Q.update_run, columns, must_hit=True)
    if new and run.inputs:
        yield Statement(Q.insert_inputs, (run.workflow_id, codec.encode(run.inputs, what="the input map")))
    if run.is_over and run.runner_id:
        yield Statement.of(Q.end_runner, {**columns, "uuid": run.runner_id})
