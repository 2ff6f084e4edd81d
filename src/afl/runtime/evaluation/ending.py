"""How a run ends: with the outputs of its root, with the root's failure, or because nothing can happen any more."""

from __future__ import annotations

from typing import Any

from afl.kernel.clock import wall_ms
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.context import ExecutionContext
from afl.runtime.persistence.history import LONGEST_DETAIL, HistoryEvent, HistoryKind
from afl.runtime.program.program import Program
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId


def end_if_over(run: RunDefinition, context: ExecutionContext) -> None:
    """At a fixed point: write into the run's record what has become of it."""
    _end_if_over(run, context)
    if run.is_over:
        context.changes.history.append(end_event(run))


def end_event(run: RunDefinition) -> HistoryEvent:
    """That a run ended, for its history."""
    if run.state == RunnerState.COMPLETED:
        return HistoryEvent(HistoryKind.RUN_COMPLETED, run.ended)
    message = str((run.error or {}).get("message", ""))[:LONGEST_DETAIL]
    return HistoryEvent(HistoryKind.RUN_FAILED, run.ended, detail=message)


def _end_if_over(run: RunDefinition, context: ExecutionContext) -> None:
    root = context.cached(StepId(run.workflow_id))  # one that ended, ended here; it may be too big to read
    if root is not None and root.is_complete:
        run.state, run.ended = RunnerState.COMPLETED, wall_ms()
        run.outputs = _outputs(root, context.program)
    elif root is not None and root.is_error:
        end_failed(run, root.transition.error or StepFailure("Workflow error"))
    elif run.waiting <= 0 and not context.agenda:
        end_failed(run, StepFailure("Workflow did not complete", step=run.workflow_name))


def end_failed(run: RunDefinition, error: Exception) -> None:
    """Write into the run's record that it failed, and of what."""
    run.state, run.ended = RunnerState.FAILED, wall_ms()
    failure = error if isinstance(error, StepFailure) else StepFailure(str(error), type(error).__name__)
    run.error = failure.to_dict()


def _outputs(root: StepDefinition, program: Program) -> dict[str, Any]:
    """What the root returned, in the order of the return clause; its caught error is no output unless declared."""
    values = {name: attribute.value for name, attribute in root.attributes.returns.items()}
    declared = [field.name for field in program.workflow.returns or ()]
    others = [name for name in values if name not in declared and name not in ("error", "error_type")]
    return {name: values[name] for name in [*declared, *others] if name in values}
