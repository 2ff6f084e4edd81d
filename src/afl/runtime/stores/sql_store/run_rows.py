"""Runs and their runner records to rows and back: the one place that knows how they look in SQL."""

from __future__ import annotations

from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Row
from afl.runtime.entities import RunDefinition, RunnerDefinition

_RUN_JSON = ("inputs", "outputs", "error", "settled")
_RUN_COLUMNS = [field.name for field in fields(RunDefinition) if field.name not in _RUN_JSON]

_run_values = attrgetter(*_RUN_COLUMNS)


def run_params(run: RunDefinition) -> dict[str, Any]:
    """A run as named parameters, without its inputs, and without its lease, which the store's clock decides."""
    params = dict(zip(_RUN_COLUMNS, _run_values(run), strict=True))
    del params["lease_until"]
    params["settled"] = int(run.settled)
    params["outputs"] = codec.encode(run.outputs, what="the outputs")
    params["error"] = None if run.error is None else codec.encode(run.error)
    return params


def run_from(row: Row) -> RunDefinition:
    """The run of a row; one that cannot be read says so, and lacks what cannot."""
    run = RunDefinition(**{name: row[name] for name in _RUN_COLUMNS})
    run.settled = bool(row["settled"])
    try:
        read_inputs(run, row["inputs"])
        run.outputs = codec.decode_map(row["outputs"])
        run.error = codec.decode_map(row["error"]) if row["error"] else None
    except ValueError as error:
        run.unreadable = f"run {run.workflow_id} cannot be read: {error}"
    return run


def read_inputs(run: RunDefinition, text: str) -> None:
    """Give a run its stored inputs, if they can be read."""
    try:
        run.inputs = codec.decode_map(text)
    except ValueError as error:
        run.unreadable = f"the inputs of run {run.workflow_id} cannot be read: {error}"


def runner_from(row: Row) -> RunnerDefinition:
    """The runner record of a row; the columns that follow the run count."""
    return replace(
        codec.decode_as(row["record"], RunnerDefinition),
        workflow_id=row["workflow_id"],
        state=row["state"],
        start_time=row["start_time"],
        end_time=row["end_time"],
        duration=row["duration"],
    )
