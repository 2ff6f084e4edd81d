"""From an exception in a step to a failure that says where it happened."""

from __future__ import annotations

from typing import Any

from afl.runtime.errors import EvaluationError, StepFailure, UnresolvedReferenceError
from afl.runtime.program import paths
from afl.runtime.program.program import Program
from afl.runtime.step import StepDefinition


def locate(error: Exception, step: StepDefinition, program: Program) -> StepFailure:
    """The error with the step, facet and source line it belongs to; one that already has a place keeps it."""
    if isinstance(error, StepFailure) and error.step:
        return error
    location = _location(error, step, program)
    return StepFailure(
        message=_message(error),
        error_type=error.error_type if isinstance(error, StepFailure) else type(error).__name__,
        step=paths.shown(step.id, step.workflow_id) or program.workflow.name,
        facet=step.facet_name,
        line=location.get("line"),
        column=location.get("column"),
        source=str(location.get("sourceId") or program.source).removeprefix("file://"),
    )


def _message(error: Exception) -> str:
    """What went wrong, without the place: that is said once, by the failure."""
    if isinstance(error, StepFailure):
        return error.message
    if isinstance(error, EvaluationError):
        return f"{error.message} in {error.expression}"
    if isinstance(error, UnresolvedReferenceError):
        return f"{error.message} ({error.reference})"
    return str(error) or type(error).__name__


def _location(error: Exception, step: StepDefinition, program: Program) -> dict[str, Any]:
    exact: dict[str, Any] | None = getattr(error, "location", None)
    if exact:
        return exact
    place = program.place(paths.relative(step.id, step.workflow_id))
    around = place.statement.location if place.statement is not None else None
    if around is None and place.graph is not None:
        around = place.graph.location
    return around or {}
