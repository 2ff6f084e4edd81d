"""Progress on a terminal: a table that is drawn again and again."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from afl.cli.console import duration, shortened
from afl.cli.progress import Fold, Progress

_BAR_WIDTH = 24
_MARGIN_LINES = 4
_WAITS = 3


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
        parts = [(f"{total.done} completed", "green")]
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
        return Text(shortened(fold.error), "red" if fold.failed else "yellow")
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
