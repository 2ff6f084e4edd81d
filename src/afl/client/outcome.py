"""What a run came to, as outputs or an exception."""

from __future__ import annotations

from typing import Any

from afl.kernel.errors import AgentFlowError, InputError
from afl.operations.reason.reasons import Reason
from afl.operations.run.runs import RunFailed, RunReport
from afl.operations.run.waiting import RunEnd
from afl.runtime.entities import RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluator import ExecutionStatus


class RunCanceled(AgentFlowError, hint="`afl retry RUN` runs it again."):
    """A run was canceled before it was over; `run` is its id, `reason` says by whom."""

    def __init__(self, message: str, run: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.run = run
        self.reason = reason


def closed() -> InputError:
    """The error of whoever waits or asks when the client is closed."""
    return InputError("the client is closed; use it inside the block of `afl.connect(...)`")


def not_ended(run: str, timeout: float | None, reason: Reason | None) -> TimeoutError:
    """The error of a wait that was too short, with the reason if that could be found."""
    why = "" if reason is None else f". Why: {reason.cause.sentence} {reason.cause.action}"
    return TimeoutError(f"run {run} had not ended after {timeout} seconds; it continues{why}")


def outputs_of(end: RunEnd) -> dict[str, Any]:
    """The outputs of a run that completed; RunFailed or RunCanceled for others."""
    if end.state == RunnerState.COMPLETED:
        return end.outputs
    if end.state == RunnerState.CANCELED:
        raise RunCanceled(f"run {end.run} of {end.workflow} was {end.reason}", end.run, end.reason)
    raise RunFailed(
        RunReport(
            run=end.run,
            workflow=end.workflow,
            status=ExecutionStatus.ERROR,
            error=StepFailure.from_dict(end.error) if end.error is not None else None,
            reason=end.reason,
            duration_ms=end.duration_ms,
            attempts=end.attempts,
        )
    )
