"""Steps and events to rows and back: the one place that knows how they look in SQL."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Row
from afl.runtime.changes import EventDefinition
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
