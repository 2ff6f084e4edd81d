"""Steps, events and runs to rows and back: the one place that knows how they look in SQL."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from operator import attrgetter
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Row
from afl.runtime.entities import RunDefinition, RunnerDefinition, RunOutcome
from afl.runtime.errors import StepFailure
from afl.runtime.persistence.changes import EventDefinition
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
_NOTHING: Mapping[str, Any] = {}


def error_data(error: Exception | None) -> dict[str, Any] | None:
    """An error as plain data."""
    if error is None:
        return None
    if isinstance(error, StepFailure):
        return error.to_dict()
    return StepFailure(str(error), type(error).__name__).to_dict()


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
    idle = f",{progress.idle}" if progress.idle else ""
    return f"[{counts},{progress.error_at}{idle}]"


def extra_text(step: StepDefinition) -> str | None:
    """What is rarely anything but the default: type hints given by hand, version, timestamp, an open request."""
    extra: dict[str, Any] = {}
    for side, attributes in (("params", step.attributes.params), ("returns", step.attributes.returns)):
        for name, attribute in attributes.items():
            if attribute.type_hint != infer_type_hint(attribute.value):
                extra.setdefault(side, {})[name] = attribute.type_hint
    if step.version is not CURRENT_VERSION and step.version != CURRENT_VERSION:
        extra["version"] = asdict(step.version)
    if step.timestamp is not None:
        extra["timestamp"] = step.timestamp
    if step.transition.request_transition:
        extra["request"] = True
    return codec.encode(extra) if extra else None


_NO_VALUES = {"params": "{}", "returns": "{}", "error": None, "progress": None, "extra": None}


def step_from(row: Row) -> StepDefinition:
    """The step of a row; one that cannot be read says so, and has no values."""
    try:
        return _step_from(row)
    except Exception as error:  # whatever somebody has written there
        step = _step_from({**{name: row[name] for name in STEP_COLUMNS}, **_NO_VALUES})
        step.unreadable = f"step {step.id} cannot be read: {error}"
        return step


def _step_from(row: Row) -> StepDefinition:
    extra = codec.decode(row["extra"]) if row["extra"] else _NOTHING
    progress, state, error = row["progress"], row["state"], row["error"]
    transition = StepTransition(state, state)
    if error is not None:
        transition.error = StepFailure.from_dict(codec.decode(error))
    if "request" in extra:
        transition.request_transition = not StepState.is_terminal(state)
    # By position, which is quicker than by name: the order is that of the fields.
    return StepDefinition(
        row["id"],
        row["object_type"],
        row["workflow_id"],
        row["statement_id"],
        row["container_type"],
        row["container_id"],
        row["block_id"],
        row["root_id"],
        state,
        transition,
        row["facet_name"],
        FacetAttributes(
            _attributes(row["params"], extra.get("params", _NOTHING)),
            _attributes(row["returns"], extra.get("returns", _NOTHING)),
        ),
        VersionInfo(**extra["version"]) if "version" in extra else CURRENT_VERSION,
        extra.get("timestamp"),
        None if progress is None else BlockProgress(*codec.decode(progress)),
        row["started"],
        row["ended"],
    )


def _attributes(text: str, hints: Mapping[str, str]) -> dict[str, AttributeValue]:
    if text == "{}":
        return {}
    values = codec.decode_map(text)
    if not hints:
        return {name: AttributeValue(name, value, infer_type_hint(value)) for name, value in values.items()}
    return {name: AttributeValue(name, value, hints.get(name, "Any")) for name, value in values.items()}


def event_row(event: EventDefinition) -> tuple[Any, ...]:
    """All columns of an event: id, step_id, workflow_id, state, event_type, payload."""
    payload = codec.encode(event.payload, what=f"the payload of event {event.id}")
    return (event.id, event.step_id, event.workflow_id, event.state, event.event_type, payload)


def event_from(row: Row) -> EventDefinition:
    """The event of a row; one that cannot be read says so, and has no payload."""
    event = EventDefinition(row["id"], row["step_id"], row["workflow_id"], row["state"], row["event_type"])
    try:
        event.payload = codec.decode_map(row["payload"])
    except ValueError as error:
        event.unreadable = f"event {event.id} cannot be read: {error}"
    return event


_RUN_JSON = ("inputs", "outputs", "error", "settled", "tags")
_RUN_COLUMNS = [field.name for field in fields(RunDefinition) if field.name not in _RUN_JSON]

_run_values = attrgetter(*_RUN_COLUMNS)


def run_params(run: RunDefinition) -> dict[str, Any]:
    """A run as named parameters, without its inputs, and without its lease, which the store's clock decides."""
    params = dict(zip(_RUN_COLUMNS, _run_values(run), strict=True))
    del params["lease_until"]
    params["settled"] = int(run.settled)
    params["outputs"] = codec.encode(run.outputs, what="the outputs")
    params["error"] = None if run.error is None else codec.encode(run.error)
    params["tags"] = codec.encode(run.tags, what="the tags") if run.tags else "{}"
    return params


def run_from(row: Row) -> RunDefinition:
    """The run of a row; one that cannot be read says so, and lacks what cannot."""
    run = RunDefinition(**{name: row[name] for name in _RUN_COLUMNS})
    run.settled = bool(row["settled"])
    try:
        read_inputs(run, row["inputs"])
        run.outputs = codec.decode_map(row["outputs"])
        run.error = codec.decode_map(row["error"]) if row["error"] else None
        run.tags = codec.decode_map(row["tags"])
    except ValueError as error:
        run.unreadable = f"run {run.workflow_id} cannot be read: {error}"
    return run


def outcome_from(row: Row) -> RunOutcome:
    """The outcome of a row, without outputs or error that cannot be read."""
    outputs, error = dict[str, Any](), None
    with contextlib.suppress(ValueError):
        outputs = codec.decode_map(row["outputs"])
        error = codec.decode_map(row["error"]) if row["error"] else None
    return RunOutcome(**{**row, "outputs": outputs, "error": error})


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
