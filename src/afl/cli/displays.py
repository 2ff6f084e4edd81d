"""Progress for people: a live table on a terminal, plain lines elsewhere. Both stay small however large a run is."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from afl.cli.console import duration, errors
from afl.cli.progress import Fold, Progress
from afl.runtime.entities import TaskDefinition

_BAR_WIDTH = 24
_MARGIN_LINES = 4
_SINGLE_LINES = 10
_WAITS = 3


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
    return LiveDisplay(console) if console.is_terminal else LineDisplay(console)


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


class LiveDisplay:
    """One line per place of the program, the latest ones when there are more than fit."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress()
        self._console = console
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console, get_renderable=self.render, refresh_per_second=12, redirect_stdout=False
        )

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def render(self) -> RenderableType:
        """The table as of now."""
        with self.progress.lock:
            folds = list(self.progress.folds.values())
            room = max(3, self._console.height - _MARGIN_LINES)
            table = Table.grid(padding=(0, 2))
            if len(folds) > room:
                table.add_row("", Text(f"and {len(folds) - room} more above", "dim"))
            for fold in folds[-room:]:
                table.add_row(*self._row(fold))
            for text in list(self.progress.waits.values())[:_WAITS]:
                table.add_row(self._spinner, Text(text, "yellow"))
            table.add_row("", Text(self.progress.workflow, "bold"), self._sums(), self._elapsed())
            return table

    def _row(self, fold: Fold) -> list[RenderableType]:
        now = self.progress.clock()
        name = Text.assemble((fold.name, "bold"), " ", (fold.facet, "dim"))
        return [self._mark(fold), name, _amount(fold), Text(duration(fold.seconds(now) * 1000), "dim")]

    def _mark(self, fold: Fold) -> RenderableType:
        if fold.running or fold.delayed or fold.over < fold.expected:
            return self._spinner
        if fold.failed:
            return Text("✗", "bold red")
        return Text("!", "bold yellow") if fold.caught else Text("✓", "bold green")

    def _sums(self) -> Text:
        total = self.progress.total
        parts = [(f"{total.done} done", "green")]
        parts += [(f"{total.running} running", "cyan")] if total.running else []
        parts += [(f"{total.delayed} to be retried", "yellow")] if total.delayed else []
        parts += [(f"{total.caught} caught", "yellow")] if total.caught else []
        parts += [(f"{total.failed} failed", "red")] if total.failed else []
        return Text(", ").join(Text(text, style) for text, style in parts)

    def _elapsed(self) -> Text:
        return Text(duration((self.progress.clock() - self.progress.began_at) * 1000), "dim")


def _amount(fold: Fold) -> RenderableType:
    """A bar for many steps, the error of a single one."""
    if not fold.is_many:
        if not fold.error:
            return Text(f"{fold.retries + 1} attempts" if fold.retries else "", "dim")
        return Text(_shortened(fold.error), "red" if fold.failed else "yellow")
    goal = max(fold.expected, fold.started)
    color = "red" if fold.failed else "yellow" if fold.caught else "green"
    bar = ProgressBar(goal, fold.over, width=_BAR_WIDTH, complete_style="cyan", finished_style=color)
    row = Table.grid(padding=(0, 1))
    row.add_row(bar, Text(f"{fold.over}/{goal}"), *([_unsuccessful(fold)] if _unsuccessful(fold) else []))
    return row


def _unsuccessful(fold: Fold) -> Text:
    retried = Text(f"{fold.retries} retried", "yellow") if fold.retries else Text()
    caught = Text(f"{fold.caught} caught", "yellow") if fold.caught else Text()
    failed = Text(f"{fold.failed} failed", "red") if fold.failed else Text()
    return Text(" ").join(each for each in (retried, caught, failed) if each)


def _shortened(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= 60 else f"{line[:59]}…"


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
            outcome = f"failed: {_shortened(error)}" if error is not None else "done"
            self._print(f"{fold.name} = {task.name}{goal}: {outcome} ({duration(fold.latest * 1000)})")
        elif is_round(fold.over) or fold.over == fold.expected:
            failures = f", {fold.failed} failed" if fold.failed else ""
            self._print(f"{fold.name} = {task.name}{goal}: {fold.done} done{failures}")

    def task_retried(self, task: TaskDefinition, error: str, delay_ms: int) -> None:
        super().task_retried(task, error, delay_ms)
        fold = self._fold(task)
        if fold.retries <= _SINGLE_LINES or is_round(fold.retries):
            self._print(
                f"{fold.name} = {task.name}: failed: {_shortened(error)}; next attempt in {duration(delay_ms)}"
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
