"""The statements of the language itself: sys.log and sys.assert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from afl.kernel.ids import sortable_id
from afl.runtime.entities import LogDefinition
from afl.runtime.errors import StepFailure
from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.expression import EvaluationContext
from afl.runtime.program.operators import boolean, text_of
from afl.runtime.program.rendering import render
from afl.runtime.step import StepDefinition

if TYPE_CHECKING:
    from afl.runtime.evaluation.context import ExecutionContext


def write_log(step: StepDefinition, context: ExecutionContext, values: dict[str, Any]) -> None:
    """`sys.log(a = x)`: an entry in the run's log with the named values."""
    text = text_of(values.get("message"))
    rest = {name: value for name, value in values.items() if name != "message"}
    shown = " ".join(f"{name}={text_of(value)}" for name, value in rest.items())
    context.changes.logs.append(
        LogDefinition(
            uuid=sortable_id(),
            order=context.next_log_order(),
            runner_id=context.runner_id or context.workflow_id,
            step_id=step.id,
            object_id=context.workflow_id,
            object_type=step.object_type,
            message=" ".join(part for part in (text, shown) if part),
            details=values,
            time=context.now,
        )
    )


def assert_condition(statement: StatementDefinition, context: EvaluationContext) -> None:
    """`sys.assert(condition)`: fail the step unless the condition holds."""
    if statement.condition is None:
        return
    text = render(statement.args[0]["value"]) if statement.args else "condition"
    if not boolean(statement.condition(context), "sys.assert"):
        raise StepFailure(f"sys.assert failed ({text})", "AssertionError")
