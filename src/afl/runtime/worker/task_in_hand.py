"""A task in hand: its handler at work, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.runtime.entities import TaskDefinition
from afl.runtime.handler import HandlerContext
from afl.runtime.policies import TIMEOUT_ERROR


@dataclass(slots=True, eq=False)
class Working:
    """A task whose handler is at work, or about to be."""

    task: TaskDefinition
    context: HandlerContext
    ends: float | None = None
    began: bool = False
    over: bool = False
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What a handler answered, or the error it raised; `seconds` is how long it took."""

    task: TaskDefinition
    answer: Any = None
    error: BaseException | None = None
    seconds: float = 0.0

    @property
    def error_type(self) -> str:
        """The name of the error, as a workflow's Retry may list it."""
        return TIMEOUT_ERROR if isinstance(self.error, TimedOut) else type(self.error).__name__


class TimedOut(Exception):
    """The time that the workflow gives a step is up."""
