"""Errors of the runtime.

AgentFlowError
└── WorkflowRuntimeError        exported as RuntimeError too, the name of old
    ├── InvalidStepStateError   ├── StepNotFoundError       ├── BlockNotFoundError
    ├── EvaluationError         ├── UnresolvedReferenceError (old name ReferenceError)
    ├── DependencyNotSatisfiedError  ├── InvalidTransitionError  ├── ConcurrencyError
    ├── EventError              ├── VersionMismatchError    ├── ResultError
    ├── WorkCanceled           nobody waits for a handler's answer any more
    └── StepFailure             why a step, and with it a run, failed: where, in which facet, at which line
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.kernel.error_text import error_text
from afl.kernel.errors import AgentFlowError, InputError


class WorkflowRuntimeError(
    AgentFlowError, hint="`afl show RUN` and `afl why RUN` show the state of the run.", status=409
):
    """Base of the runtime's errors."""


class WorkCanceled(WorkflowRuntimeError, hint="Let it pass: stop working and clean up."):
    """Nobody waits for a handler's answer any more."""


@dataclass(eq=False)
class InvalidStepStateError(
    WorkflowRuntimeError,
    hint="Look at the step with `afl show RUN`; it has already continued, or has not reached that state.",
):
    """A step is not in a state the operation needs."""

    step_id: str
    current_state: str
    expected_states: list[str]

    def __str__(self) -> str:
        return (
            f"Step {self.step_id} is in state '{self.current_state}', expected one of: {self.expected_states}"
        )


@dataclass(eq=False)
class StepNotFoundError(WorkflowRuntimeError, hint="Take the id from `afl show RUN --json`.", status=404):
    """No such step."""

    step_id: str

    def __str__(self) -> str:
        return f"Step not found: {self.step_id}"


@dataclass(eq=False)
class BlockNotFoundError(WorkflowRuntimeError, hint="Take the id from `afl show RUN --json`.", status=404):
    """No such block."""

    block_id: str

    def __str__(self) -> str:
        return f"Block not found: {self.block_id}"


@dataclass(eq=False)
class DependencyNotSatisfiedError(WorkflowRuntimeError, hint="Wait for the steps named in the text."):
    """A step was told to run before the steps it refers to."""

    step_id: str
    missing_dependencies: list[str]

    def __str__(self) -> str:
        return f"Step {self.step_id} has unsatisfied dependencies: {', '.join(self.missing_dependencies)}"


@dataclass(eq=False)
class EvaluationError(
    WorkflowRuntimeError,
    hint="Correct the expression in the workflow, or its input values; then `afl retry RUN`.",
):
    """An expression could not be evaluated."""

    expression: str
    message: str
    step_id: str | None = None
    location: dict[str, Any] | None = None

    def __str__(self) -> str:
        where = f" in step {self.step_id}" if self.step_id else ""
        return f"Evaluation error{where}: {self.message} (expression: {self.expression})"


@dataclass(eq=False)
class UnresolvedReferenceError(WorkflowRuntimeError, hint="Correct the reference in the workflow."):
    """A reference leads nowhere."""

    reference: str
    message: str
    step_id: str | None = None

    def __str__(self) -> str:
        where = f" in step {self.step_id}" if self.step_id else ""
        return f"Reference error{where}: {self.message} (reference: {self.reference})"


@dataclass(eq=False)
class InvalidTransitionError(
    WorkflowRuntimeError, hint="Report it: a state machine was driven the wrong way."
):
    """A state does not follow another."""

    step_id: str
    from_state: str
    to_state: str

    def __str__(self) -> str:
        return f"Step {self.step_id} cannot go from '{self.from_state}' to '{self.to_state}'"


@dataclass(eq=False)
class ConcurrencyError(WorkflowRuntimeError, hint="Nothing to repair: another process is working on it."):
    """Another process is working on it."""

    step_id: str
    message: str

    def __str__(self) -> str:
        return f"Concurrency error for step {self.step_id}: {self.message}"


@dataclass(eq=False)
class EventError(WorkflowRuntimeError, hint="Nothing to repair: the event was handled already."):
    """An event cannot take a transition."""

    event_id: str
    message: str

    def __str__(self) -> str:
        return f"Event {self.event_id}: {self.message}"


@dataclass(eq=False)
class VersionMismatchError(WorkflowRuntimeError, hint="Use the same version on both sides."):
    """Two parts are incompatible."""

    expected_version: str
    actual_version: str
    component: str

    def __str__(self) -> str:
        return f"{self.component} has version {self.actual_version}, expected {self.expected_version}"


class ResultError(
    WorkflowRuntimeError,
    InputError,
    hint="Correct the handler: it must return what the return clause of its facet says.",
    status=422,
):
    """A result does not match the return clause of its facet; the text says which field, and so does `field`."""

    field: str = ""

    @classmethod
    def of(cls, field: str, message: str) -> ResultError:
        """The error of one return field."""
        error = cls(message)
        error.field = field
        return error


@dataclass(eq=False)
class StepFailure(
    WorkflowRuntimeError,
    hint="Fix the cause, then `afl retry RUN`; or handle it in the workflow with `catch` or `Retry`.",
):
    """Why a step failed; travels up to the run unchanged, so the first cause is what a person reads."""

    message: str
    error_type: str = "Error"
    step: str = ""
    facet: str = ""
    line: int | None = None
    column: int | None = None
    source: str = ""

    def __post_init__(self) -> None:
        """Whatever is stored, logged or shown of it is said by its message, which may quote what a handler raised."""
        self.message = error_text(self.message)

    def __str__(self) -> str:
        return f"{self.message}{self.where}"

    @property
    def text(self) -> str:
        """The message for a list of failures. The message of a KeyError is the key alone, so its type is added."""
        is_key = self.error_type == KeyError.__name__ and self.message != self.error_type
        return f"{self.error_type}: {self.message}" if is_key else self.message

    @property
    def where(self) -> str:
        """The place in words, with a leading space; empty when unknown."""
        parts = []
        if self.step:
            parts.append(f"step {self.step}" + (f" = {self.facet}" if self.facet else ""))
        if self.line is not None:
            column = f":{self.column}" if self.column is not None else ""
            parts.append(f"{self.source or 'line '}{':' if self.source else ''}{self.line}{column}")
        return f" [{', '.join(parts)}]" if parts else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for the store."""
        fields = ("message", "error_type", "step", "facet", "line", "column", "source")
        return {name: getattr(self, name) for name in fields if getattr(self, name) not in ("", None)}

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies: an exception is made anew from its arguments, of which Python knows none here."""
        return StepFailure.from_dict, (self.to_dict(),)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StepFailure:
        """The failure that `to_dict` described."""
        return cls(**data)


# The names seed documents and older code use; they shadow builtins only where imported on purpose.
RuntimeError = WorkflowRuntimeError
ReferenceError = UnresolvedReferenceError
