"""How the outside work of a step ends: the facet's return clause is the contract."""

from __future__ import annotations

from copy import copy
from typing import Any

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.kernel.errors import PayloadError
from afl.kernel.ids import sortable_id
from afl.runtime.entities import LogDefinition, NoteType, TaskDefinition, TaskState, close_attempt
from afl.runtime.errors import ResultError, StepFailure
from afl.runtime.persistence.changes import Outcome
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.program import Program
from afl.runtime.program.values import misfit, unknown_name
from afl.runtime.step import StepDefinition
from afl.runtime.stores.masking import error_record


def check_result(program: Program, facet: str, result: Any) -> dict[str, Any]:
    """A result that somebody typed, as returns of the facet; ResultError names the field that does not fit."""
    values, undeclared = fit_result(program, facet, result)
    if undeclared:
        declared = [field.name for field in program.declarations[facet].returns or ()]
        raise ResultError(f"{facet}: {unknown_name('return field', undeclared[0], declared)}")
    return values


def fit_result(program: Program, facet: str, result: Any) -> tuple[dict[str, Any], list[str]]:
    """The values of a result that the return clause declares, and the names of the others; None has no values.

    ResultError names the field that is missing or does not fit. A facet without a return clause takes everything.
    """
    if result is not None and not isinstance(result, dict):
        raise ResultError(f"{facet}: a result is a map of return values, got {type(result).__name__}")
    plain: dict[str, Any] = codec.plain_data(result or {}, what=f"the result of {facet}")
    called = program.declarations.get(facet)
    if called is None or called.returns is None:
        return plain, []
    return _declared_values(called, plain, program)


def _declared_values(
    called: Declaration, result: dict[str, Any], program: Program
) -> tuple[dict[str, Any], list[str]]:
    declared = {field.name: field for field in called.returns or ()}
    values = {name: value for name, value in result.items() if name in declared}
    for name, value in values.items():
        problem = misfit(value, declared[name].type, program.schemas, f"return field '{name}'")
        if problem:
            raise ResultError.of(name, f"{called.name}: {problem}")
    missing = [name for name, field in declared.items() if name not in values and field.default is None]
    if missing:
        raise ResultError(f"{called.name}: the result lacks {', '.join(missing)}")
    return values, [name for name in result if name not in declared]


def completed(program: Program, step: StepDefinition, task: TaskDefinition | None, result: Any) -> Outcome:
    """The work is done; a result that does not fit the return clause fails the step instead."""
    try:
        given = {**_returned(step), **(result or {})} if isinstance(result, dict | None) else result
        values, undeclared = fit_result(program, step.facet_name, given)
    except (ResultError, PayloadError) as error:
        return failed(step, task, str(error), type(error).__name__)
    for name, value in values.items():
        step.set_attribute(name, value, is_return=True)
    step.request_state_change(True)
    logs = (_dropped(step, task, undeclared),) if undeclared else ()
    return Outcome(step, _closed(task, TaskState.COMPLETED, result=values), logs=logs)


def failed(
    step: StepDefinition, task: TaskDefinition | None, message: str, kind: str = "AgentError"
) -> Outcome:
    """The work failed."""
    step.mark_error(StepFailure(message, kind))
    return Outcome(step, _closed(task, TaskState.FAILED, error=error_record(message, kind)))


def _returned(step: StepDefinition) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in step.attributes.returns.items()}


def _closed(
    task: TaskDefinition | None,
    state: str,
    *,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> TaskDefinition | None:
    if task is None:
        return None
    closed = copy(task)
    closed.state, closed.result, closed.error, closed.updated = state, result, error, wall_ms()
    close_attempt(closed)
    return closed


_NAMES_SHOWN = 10


def _dropped(step: StepDefinition, task: TaskDefinition | None, names: list[str]) -> LogDefinition:
    """A warning for the run's log: what the agent returned beyond the return clause."""
    shown = ", ".join(name[:100] for name in names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    now = wall_ms()
    return LogDefinition(
        uuid=sortable_id(),
        order=now * 1000,
        runner_id=step.workflow_id,
        step_id=step.id,
        object_id=task.uuid if task is not None else step.workflow_id,
        object_type="task" if task is not None else step.object_type,
        note_type=NoteType.WARNING,
        message=f"dropped from the result, as {step.facet_name} does not declare it: {shown}{more}",
        time=now,
    )
