"""The outcome of a tool call: the consistent content of its `tool.result` card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afl.kernel.errors import PayloadError
from afl.models.schema import plain_answer
from afl.turns.cardbox.cards import NewCard, check_card, tool_result_content
from afl.turns.cardbox.parts import with_parts
from afl.turns.errors import CardError
from afl.turns.model import Limits
from afl.turns.statuses import AfterExecution, TaskStatus

SUSPEND = AfterExecution.SUSPEND
AFTER_EXECUTION = tuple(AfterExecution)  # not sets: what another process said may have no hash
STATUSES = tuple(TaskStatus)


class ToolFailure(Exception):
    """What a tool raises to fail with a code of its own; any other error has the name of its class as its code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Outcome:
    """Status, result and error of one call. `error` is None exactly when the call succeeded."""

    status: str
    result: Any = None
    error: Mapping[str, Any] | None = None
    after_execution: str = SUSPEND
    parts: Sequence[Mapping[str, Any]] = ()  # files among them, as the card has them
    card_id: str = ""  # of the card whose files were stored; empty: any

    @property
    def succeeded(self) -> bool:
        return self.status == TaskStatus.SUCCESS

    def content(self) -> dict[str, Any]:
        """As the card has it."""
        plain = tool_result_content(self.status, self.after_execution, self.result, self.error)
        return with_parts(plain, self.parts)


def failed(code: str, message: str, *, status: str = "failed", after_execution: str = SUSPEND) -> Outcome:
    """The outcome of a call that failed."""
    return Outcome(status, None, {"code": code, "message": message}, after_execution)


def outcome_of(answer: Any, *, tool: str, after_execution: str = SUSPEND) -> Outcome:
    """The outcome of a call that returned; a value that is no JSON data is a failed outcome."""
    try:
        plain = plain_answer(answer, tool)
    except PayloadError as error:
        return failed("result_not_serializable", str(error), after_execution=after_execution)
    return Outcome("success", plain, None, after_execution)


def result_card(make: Callable[[Outcome], NewCard], outcome: Outcome, limits: Limits) -> NewCard:
    """The card of an outcome; one that is too large for a card is a failed outcome."""
    card = make(outcome)
    try:
        check_card(card, limits)
    except CardError as error:
        return make(failed(str(error.code), str(error)))
    return card


def checked(status: str, result: Any, error: Any, after_execution: str) -> Outcome:
    """The outcome that another process reported. An inconsistent one is a failed outcome."""
    if status not in STATUSES:
        return failed("invalid_status", f"the tool answered with the status {status!r}")
    if after_execution not in AFTER_EXECUTION:
        return failed(
            "invalid_after_execution", f"the tool answered with after_execution {after_execution!r}"
        )
    if status == "success" and error is not None:
        return failed("error_with_success", f"the tool succeeded with an error: {error}")
    if status != "success" and not _is_error(error):
        error = {"code": status, "message": str(error or f"the tool ended {status}")}
    return Outcome(status, result, error, after_execution)


def _is_error(error: Any) -> bool:
    return isinstance(error, Mapping) and "code" in error and "message" in error
