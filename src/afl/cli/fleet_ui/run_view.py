"""The chosen run: its DAG as it stands, and its lines as they come."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import RichLog, Static

from afl.cli.fleet_graph import graph, summary
from afl.cli.fleet_lines import line_text
from afl.fleet.messages import LogLine
from afl.fleet.workflow import Workflow
from afl.kernel.clock import wall_ms
from afl.operations.fleet.fleet_dag import RunStanding, task_lines

MOST_LINES = 5_000


class DagView(VerticalScroll, can_focus=True):
    """The DAG of a workflow, or of a run with where each task stands."""

    def compose(self) -> ComposeResult:
        yield Static(id="dag")

    def on_mount(self) -> None:
        self.standing: RunStanding | None = None
        self.workflow: Workflow | None = None
        self.border_title = "DAG"
        self.set_interval(0.2, self._tick)

    def show_workflow(self, workflow: Workflow | None) -> None:
        self.workflow, self.standing = workflow, None
        self._draw()

    def show_run(self, standing: RunStanding) -> None:
        self.standing = standing
        self._draw()

    def _tick(self) -> None:
        """What runs is drawn anew: its duration grows."""
        if self.standing is not None and not self.standing.run.status.is_final:
            self._draw()

    def _draw(self) -> None:
        for static in self.query("#dag").results(Static):  # none while the screen closes
            static.update(self._drawn())

    def _drawn(self) -> RenderableType:
        now = wall_ms()
        if self.standing is not None:
            self.border_title = f"Run {self.standing.run.run_id}"
            rows = [summary(self.standing, now), *graph(self.standing.tasks, now, spinning=True)]
            if self.standing.run.waits:
                rows.append(Text(f"waits: {self.standing.run.waits}", "yellow"))
            if self.standing.run.error:
                rows.append(Text(self.standing.run.error, "red"))
            return Group(*_cut(rows))
        if self.workflow is None:
            self.border_title = "DAG"
            return Text("no workflow is chosen", "dim")
        self.border_title = f"Workflow {self.workflow.id}"
        head = [Text(self.workflow.name, "bold")]
        head += [Text(self.workflow.description, "dim")] if self.workflow.description else []
        head += [Text(f"cron {self.workflow.cron}", "cyan")] if self.workflow.cron else []
        return Group(*_cut([*head, *graph(task_lines(self.workflow), now)]))


def _cut(rows: list[Text]) -> list[Text]:
    for row in rows:
        row.no_wrap, row.overflow = True, "ellipsis"
    return rows


class RunLog(RichLog):
    """The latest lines of the chosen run."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(
            id=id, classes=classes, max_lines=MOST_LINES, wrap=True, highlight=False, markup=False
        )
        self.border_title = "Log lines"
        self.count = 0

    def begin(self) -> None:
        """Another run."""
        self.clear()
        self.count = 0

    def add(self, lines: list[LogLine]) -> None:
        self.count += len(lines)
        for line in lines[-MOST_LINES:]:
            self.write(line_text(line, task=True))
        self.border_title = f"Log lines ({self.count})"
