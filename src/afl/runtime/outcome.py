"""How the outside work of a step ends: the facet's return clause is the contract."""

from __future__ import annotations

from copy import copy
from typing import Any

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.kernel.errors import PayloadError
from afl.runtime.changes import Outcome
from afl.runtime.declaration import Declaration
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.errors import ResultError, StepFailure
from afl.runtime.program import Program
from afl.runtime.step import StepDefinition
from afl.runtime.values import misfit, unknown_name


def check_result(program: Program, facet: str, result: Any) -> dict[str, Any]:
    """The result as returns of the facet; ResultError names the field that does not fit."""
    if result is None:
        return {}
    if not isinstance(result, dict):
        raise ResultError(f"{facet}: a result is a map of return values, got {type(result).__name__}")
    text = codec.encode(result, what=f"the result of {facet}")
    plain: dict[str, Any] = codec.decode(text)  # as whoever reads it from the store will see it
    called = program.declarations.get(facet)
    if called is not None and called.returns is not None:
        _check_fields(called, plain, program)
    return plain


def _check_fields(called: Declaration, result: dict[str, Any], program: Program) -> None:
    declared = {field.name: field for field in called.returns or ()}
    for name, value in result.items():
        if name not in declared:
            raise ResultError(f"{called.name}: {unknown_name('return field', name, declared)}")
        problem = misfit(value, declared[name].type, program.schemas, f"return field '{name}'")
        if problem:
            raise ResultError(f"{called.name}: {problem}")
    missing = [name for name, field in declared.items() if name not in result and field.default is None]
    if missing:
        raise ResultError(f"{called.name}: the result lacks {', '.join(missing)}")


def completed(program: Program, step: StepDefinition, task: TaskDefinition | None, result: Any) -> Outcome:
    """The work is done; a result that does not fit the return clause fails the step instead."""
    try:
        given = (
            None if result is None else {**_returned(step), **result} if isinstance(result, dict) else result
        )
        values = check_result(program, step.facet_name, given)
    except (ResultError, PayloadError) as error:
        return failed(step, task, str(error), type(error).__name__)
    for name, value in values.items():
        step.set_attribute(name, value, is_return=True)
    step.request_state_change(True)
    return Outcome(step, _closed(task, TaskState.COMPLETED, result=values))


def failed(
    step: StepDefinition, task: TaskDefinition | None, message: str, kind: str = "AgentError"
) -> Outcome:
    """The work failed."""
    step.mark_error(StepFailure(message, kind))
    return Outcome(step, _closed(task, TaskState.FAILED, error={"message": message, "type": kind}))


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
    return closed
