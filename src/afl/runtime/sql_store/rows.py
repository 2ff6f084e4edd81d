"""Records to rows and back: the one place that knows how a step, task or run looks in SQL."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, fields, replace
from operator import attrgetter
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Row
from afl.runtime.changes import EventDefinition
from afl.runtime.entities import (
    RunDefinition,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    TaskHold,
)
from afl.runtime.errors import StepFailure
from afl.runtime.states import StepState
from afl.runtime.step import CURRENT_VERSION, BlockProgress, StepDefinition, StepTransition
from afl.runtime.types import AttributeValue, FacetAttributes, VersionInfo, infer_type_hint

STEP_VALUES = ("state", "params", "returns", "error", "progress", "extra", "ended", "id")
STEP_COLUMNS = (
    "id",
    "workflow_id",
    "object_type",
    "state",
    "statement_id",
    "container_type",
    "container_id",
    "block_id",
    "root_id",
    "facet_name",
    "params",
    "returns",
    "error",
    "progress",
    "extra",
    "started",
    "ended",
)
EVENT_COLUMNS = ("id", "step_id", "workflow_id", "state", "event_type", "payload")
LOG_COLUMNS = ("uuid", "runner_id", "position", "time", "record")


def error_data(error: Exception | None) -> dict[str, Any] | None:
    """An error as plain data."""
    if error is None:
        return None
    if isinstance(error, StepFailure):
        return error.to_dict()
    return {"message": str(error), "error_type": type(error).__name__}


def values_text(attributes: dict[str, AttributeValue], what: str) -> str:
    """Attribute values as JSON."""
    if not attributes:
        return "{}"
    return codec.encode({name: attribute.value for name, attribute in attributes.items()}, what=what)


def step_values(step: StepDefinition) -> tuple[Any, ...]:
    """What changes in the life of a step, then its id: STEP_VALUES."""
    error, progress = step.transition.error, step.progress
    return (
        step.state,
        values_text(step.attributes.params, f"the parameters of step {step.id}"),
        values_text(step.attributes.returns, f"the returns of step {step.id}"),
        None if error is None else codec.encode(error_data(error)),
        None if progress is None else _progress_text(progress),
        extra_text(step),
        step.ended,
        step.id,
    )


def step_row(step: StepDefinition) -> tuple[Any, ...]:
    """All columns of a step: STEP_COLUMNS."""
    state, params, returns, error, progress, extra, ended, step_id = step_values(step)
    return (
        step_id,
        step.workflow_id,
        step.object_type,
        state,
        step.statement_id,
        step.container_type,
        step.container_id,
        step.block_id,
        step.root_id,
        step.facet_name,
        params,
        returns,
        error,
        progress,
        extra,
        step.started,
        ended,
    )


def _progress_text(progress: BlockProgress) -> str:
    counts = f"{progress.total},{progress.opened},{progress.active},{progress.complete},{progress.errored}"
    return f"[{counts},{progress.error_at}]"


def extra_text(step: StepDefinition) -> str | None:
    """What is rarely anything but the default: type hints given by hand, version, timestamp, an open request."""
    extra: dict[str, Any] = {}
    attributes = step.attributes
    if attributes.params and (hints := _given_hints(attributes.params)):
        extra["params"] = hints
    if attributes.returns and (hints := _given_hints(attributes.returns)):
        extra["returns"] = hints
    if step.version is not CURRENT_VERSION and step.version != CURRENT_VERSION:
        extra["version"] = asdict(step.version)
    if step.timestamp is not None:
        extra["timestamp"] = step.timestamp
    if step.transition.request_transition:
        extra["request"] = True
    return codec.encode(extra) if extra else None


def _given_hints(attributes: dict[str, AttributeValue]) -> dict[str, str]:
    return {
        name: attribute.type_hint
        for name, attribute in attributes.items()
        if attribute.type_hint != infer_type_hint(attribute.value)
    }


def step_from(row: Row) -> StepDefinition:
    """The step of a row."""
    extra = codec.decode(row["extra"]) if row["extra"] else {}
    progress = codec.decode(row["progress"]) if row["progress"] else None
    state, error = row["state"], row["error"]
    return StepDefinition(
        id=row["id"],
        object_type=row["object_type"],
        workflow_id=row["workflow_id"],
        statement_id=row["statement_id"],
        container_type=row["container_type"],
        container_id=row["container_id"],
        block_id=row["block_id"],
        root_id=row["root_id"],
        state=state,
        transition=StepTransition(
            state,
            state,
            request_transition=bool(extra.get("request")) and not StepState.is_terminal(state),
            error=None if error is None else StepFailure.from_dict(codec.decode(error)),
        ),
        facet_name=row["facet_name"],
        attributes=FacetAttributes(
            _attributes(row["params"], extra.get("params")), _attributes(row["returns"], extra.get("returns"))
        ),
        version=VersionInfo(**extra["version"]) if "version" in extra else CURRENT_VERSION,
        timestamp=extra.get("timestamp"),
        progress=None if progress is None else BlockProgress(*progress),
        started=row["started"],
        ended=row["ended"],
    )


def _attributes(text: str, hints: dict[str, str] | None) -> dict[str, AttributeValue]:
    if text == "{}":
        return {}
    given = hints or {}
    return {
        name: AttributeValue(name, value, given.get(name, "Any"))
        for name, value in codec.decode(text).items()
    }


def event_row(event: EventDefinition) -> tuple[Any, ...]:
    """All columns of an event: EVENT_COLUMNS."""
    payload = codec.encode(event.payload, what=f"the payload of event {event.id}")
    return (event.id, event.step_id, event.workflow_id, event.state, event.event_type, payload)


def event_from(row: Row) -> EventDefinition:
    """The event of a row."""
    return EventDefinition(
        row["id"],
        row["step_id"],
        row["workflow_id"],
        row["state"],
        row["event_type"],
        codec.decode(row["payload"]),
    )


_TASK_JSON = ("error", "data", "result", "retry", "bridge")
_POLICY_COLUMNS = (
    "timeout_ms",
    "concurrency_key",
    "concurrency_limit",
    "hold",
    "not_before",
    "deadline",
    "failures",
    "lock_until",
    "last_owner",
    "via",
    "patience_ms",
)
_TASK_COLUMNS = [
    field.name for field in fields(TaskDefinition) if field.name not in (*_TASK_JSON, *_POLICY_COLUMNS)
]

_task_values = attrgetter(*_TASK_COLUMNS)
_policy_values = attrgetter(*_POLICY_COLUMNS)


def task_params(task: TaskDefinition) -> dict[str, Any]:
    """What every task has, as named parameters."""
    params = dict(zip(_TASK_COLUMNS, _task_values(task), strict=True))
    params["short_name"] = task.name.rpartition(".")[2]
    params["error"] = None if task.error is None else codec.encode(task.error)
    params["result"] = None if task.result is None else codec.encode(task.result)
    params["data"] = (
        None if task.data is None else codec.encode(task.data, what=f"the data of task {task.uuid}")
    )
    return params


def policy_params(task: TaskDefinition) -> dict[str, Any]:
    """What only some tasks have, as named parameters."""
    params = dict(zip(_POLICY_COLUMNS, _policy_values(task), strict=True))
    params["retry"] = None if task.retry is None else codec.encode(task.retry)
    params["bridge"] = bridge_text(task)
    params["uuid"] = task.uuid
    return params


def new_policy(task: TaskDefinition) -> dict[str, Any] | None:
    """The policies of a new task, if it has any; one with a concurrency key waits until it is promoted."""
    if not (task.timeout_ms or task.retry is not None or task.concurrency_key):
        return None
    params = policy_params(task)
    params["hold"] = TaskHold.CONCURRENCY if task.concurrency_key else ""
    return {name: params[name] for name in _NEW_POLICY}


def new_elsewhere(task: TaskDefinition) -> dict[str, Any] | None:
    """Where a new task is done, if not by a worker; its times begin when the store has it."""
    if not task.via:
        return None
    return {
        "uuid": task.uuid,
        "via": task.via,
        "bridge": bridge_text(task),
        "patience_ms": task.patience_ms,
    }


def bridge_text(task: TaskDefinition) -> str | None:
    """What the other side is to know, as JSON."""
    if task.bridge is None:
        return None
    return codec.encode(task.bridge, what=f"the bridge of task {task.uuid}")


_NEW_POLICY = ("uuid", "timeout_ms", "retry", "concurrency_key", "concurrency_limit", "hold")


def task_from(row: Row) -> TaskDefinition:
    """The task of a row."""
    values = dict(zip(row.keys(), tuple(row), strict=True)) if isinstance(row, sqlite3.Row) else {**row}
    for name in _NOT_OF_A_TASK:
        del values[name]
    for name in _TASK_JSON:
        if values[name] is not None:
            values[name] = codec.decode(values[name])
    task = TaskDefinition("", "", "", "", "", "")
    vars(task).update(values)  # twice as fast as keyword arguments: the names of columns are not interned
    return task


_NOT_OF_A_TASK = ("seq", "short_name")

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
    """The run of a row."""
    run = RunDefinition(**{name: row[name] for name in _RUN_COLUMNS})
    run.settled = bool(row["settled"])
    run.inputs, run.outputs = codec.decode(row["inputs"]), codec.decode(row["outputs"])
    run.error = codec.decode(row["error"]) if row["error"] else None
    return run


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


def server_from(row: Row) -> ServerDefinition:
    """The server of a row; the heartbeat writes the ping time alone."""
    return replace(codec.decode_as(row["record"], ServerDefinition), ping_time=row["ping_time"])
