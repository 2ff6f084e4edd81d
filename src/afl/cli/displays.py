"""Progress for people: a live table on a terminal, plain lines elsewhere. Both stay small however large a run is."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.text import Text

from afl.cli.console import duration, errors, shortened
from afl.cli.progress import Progress
from afl.runtime.entities import TaskDefinition

_SINGLE_LINES = 10


class Display(Protocol):
    """A progress that shows itself while it is entered."""

    progress: Progress

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def display_for(*, quiet: bool = False) -> Display:
    """The display that fits standard error."""
    console = errors()
    if quiet:
        return Silent()
    if not console.is_terminal:
        return LineDisplay(console)
    from afl.cli.live_display import LiveDisplay  # noqa: PLC0415  tables and spinners, for a terminal alone

    return LiveDisplay(console)


class Silent:
    """Nothing is shown; the run's id is known all the same."""

    def __init__(self) -> None:
        self.progress = Progress()

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class LineProgress(Progress):
    """Says what ended: each of the first few steps of a place, then only round numbers."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._told: set[str] = set()

    def began(self, workflow_id: str, workflow_name: str) -> None:
        super().began(workflow_id, workflow_name)
        self._print(f"run {workflow_id} of {workflow_name}")

    def awaited(self, tasks: list[TaskDefinition]) -> None:
        super().awaited(tasks)
        for task, text in self.waits.items():
            if task not in self._told and len(self._told) < _SINGLE_LINES:
                self._told.add(task)
                self._print(text)

    def task_ended(self, task: TaskDefinition, error: str | None) -> None:
        super().task_ended(task, error)
        fold = self._fold(task)
        goal = f" {fold.over}/{max(fold.expected, fold.started)}" if fold.is_many else ""
        if fold.over <= _SINGLE_LINES or (error is not None and fold.failed <= _SINGLE_LINES):
            outcome = f"failed: {shortened(error)}" if error is not None else "completed"
            self._print(f"{fold.name} = {task.name}{goal}: {outcome} ({duration(fold.latest * 1000)})")
        elif is_round(fold.over) or fold.over == fold.expected:
            failures = f", {fold.failed} failed" if fold.failed else ""
            self._print(f"{fold.name} = {task.name}{goal}: {fold.done} completed{failures}")

    def task_retried(self, task: TaskDefinition, error: str, delay_ms: int) -> None:
        super().task_retried(task, error, delay_ms)
        fold = self._fold(task)
        if fold.retries <= _SINGLE_LINES or is_round(fold.retries):
            self._print(
                f"{fold.name} = {task.name}: failed: {shortened(error)}; next attempt in {duration(delay_ms)}"
            )

    def _print(self, text: str) -> None:
        self._console.print(Text(text))


class LineDisplay(Silent):
    """Lines are printed as things happen; nothing to begin or end."""

    def __init__(self, console: Console) -> None:
        self.progress = LineProgress(console)


def is_round(number: int) -> bool:
    """Whether only the first digit is not zero: 20, 300, 7000."""
    return set(str(number)[1:]) <= {"0"}
