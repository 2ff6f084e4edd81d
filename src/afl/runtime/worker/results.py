"""What came of a task: the value that its handler returned, or the error that it raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.kernel.error_text import error_text as stored_text
from afl.runtime.entities import TaskDefinition
from afl.runtime.program.policies import TIMEOUT_ERROR


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one attempt; `seconds` is how long its handler took."""

    task: TaskDefinition
    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0

    @property
    def error_type(self) -> str:
        """The name of the error, as a workflow's Retry may list it."""
        return TIMEOUT_ERROR if isinstance(self.error, HandlerTimeout) else type(self.error).__name__


class HandlerTimeout(Exception):
    """The time that the workflow gives a step is up."""


def error_text(error: BaseException) -> str:
    """The text of an error, fit to be stored whatever the handler put into it: cut, and without secrets."""
    try:
        text = str(error) or type(error).__name__
    except Exception:  # a handler's own error class may fail to give a text
        text = type(error).__name__
    return stored_text(text).encode("utf-8", "replace").decode()
