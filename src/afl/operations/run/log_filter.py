"""Which entries of a log are asked for: by level, text, attempt and step. The same for every way to read one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from afl.kernel.errors import InputError
from afl.operations.parameters import about
from afl.runtime.entities import LogDefinition
from afl.runtime.program import paths
from afl.runtime.types import WorkflowId

LEVELS = ("info", "warning", "error")

LogLevel = Annotated[
    str, Meta(description="Only entries of this level or a higher one.", extra={"choices": LEVELS})
]
LogText = Annotated[str, about("Only entries with this text in them or in their step; case does not matter.")]
LogAttempt = Annotated[
    int, Meta(ge=0, le=2**31, description="Only entries of attempts with this number; 0: of all.")
]
LogStep = Annotated[str, about("Only entries of this step, and of steps inside it: `desk` or `0/desk`.")]


@dataclass(frozen=True)
class LogFilter:
    """What an entry must have; a field that is empty demands nothing."""

    level: str = ""
    grep: str = ""
    attempt: int = 0
    step: str = ""

    def __post_init__(self) -> None:
        if self.level and self.level not in LEVELS:
            raise InputError(f"level is {self.level!r}; expected one of {', '.join(LEVELS)}")

    @property
    def is_set(self) -> bool:
        """Whether anything is left out."""
        return bool(self.level or self.grep or self.attempt or self.step)

    def matches(self, log: LogDefinition) -> bool:
        """Whether an entry is asked for."""
        if self.attempt and log.attempt != self.attempt:
            return False
        if self.level and _rank(log.note_type) < _rank(self.level):
            return False
        if self.step and not self._has_step(log):
            return False
        return not self.grep or self._has_text(log)

    def _has_text(self, log: LogDefinition) -> bool:
        wanted = self.grep.casefold()
        return wanted in log.message.casefold() or wanted in _shown(log).casefold()

    def _has_step(self, log: LogDefinition) -> bool:
        wanted = self.step.removeprefix(f"{log.runner_id}/")
        path = (log.step_id or "").removeprefix(f"{log.runner_id}/")
        shown = _shown(log)
        if wanted in (path, shown):
            return True
        return path.startswith(f"{wanted}/") or shown.startswith((f"{wanted}.", f"{wanted}["))


def _rank(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else 0


def _shown(log: LogDefinition) -> str:
    step_id = log.step_id or ""
    if not step_id.startswith(f"{log.runner_id}/"):
        return step_id
    return paths.shown(step_id, WorkflowId(log.runner_id))
