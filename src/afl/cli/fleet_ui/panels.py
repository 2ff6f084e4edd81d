"""Panels of the main screen: lists of workflows, runs and agents, and one run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, RichLog, Static

from afl.cli.console import duration, shortened
from afl.cli.fleet_display import (
    COLORS,
    agent_state_text,
    ending_text,
    graph,
    line_text,
    status_text,
    summary,
)
from afl.fleet.messages import LogLine, RunView
from afl.fleet.settings import FleetSettings
from afl.fleet.workflow import Workflow
from afl.kernel.clock import wall_ms
from afl.operations.fleet.fleet_dag import RunStanding, task_lines
from afl.operations.fleet.fleet_view import Overview
from afl.operations.spans import ago, plural, span

Row = tuple[str, tuple[Text | str, ...]]


class Rows(DataTable[Text | str]):
    """Rows with a key each; says which one the cursor is on when that changes."""

    class Chosen(Message):
        """The cursor is on another row; an empty key when there are none."""

        def __init__(self, rows: Rows, key: str) -> None:
            super().__init__()
            self.rows = rows
            self.key = key

        @property
        def control(self) -> Rows:
            return self.rows

    def __init__(self, *columns: str, id: str) -> None:
        super().__init__(
            id=id, cursor_type="row", zebra_stripes=True, cursor_foreground_priority="renderable"
        )
        self._titles = columns
        self._keys: list[str] = []
        self._before: list[Row] = []
        self.chosen = ""

    def on_mount(self) -> None:
        for title in self._titles:
            self.add_column(title, key=title)

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the rows, in their order."""
        return self._keys

    def show(self, rows: Sequence[Row], chosen: str = "") -> None:
        """Put these rows in place of the others; the cursor stays on its row, or goes to `chosen`."""
        keys = [key for key, _ in rows]
        # Where the cursor is now, and not what was told of it: a key may have moved it this very moment.
        wanted = chosen if chosen in keys else self._under_cursor()
        if keys == self._keys:
            for row, before in zip(rows, self._before, strict=True):
                if row != before:
                    for title, cell in zip(self._titles, row[1], strict=True):
                        self.update_cell(row[0], title, cell, update_width=True)
        else:
            self.clear()
            for key, cells in rows:
                self.add_row(*cells, key=key)
            self._keys = keys
        self._before = list(rows)
        place = keys.index(wanted) if wanted in keys else 0
        if keys and self.cursor_row != place:
            self.move_cursor(row=place)
        self._tell(keys[place] if keys else "")

    @on(DataTable.RowHighlighted)
    def _moved(self, event: DataTable.RowHighlighted) -> None:
        """While rows are put in place the cursor passes over others: only where it is now counts."""
        event.stop()
        self._tell(self._under_cursor())

    def _under_cursor(self) -> str:
        return self._keys[self.cursor_row] if 0 <= self.cursor_row < len(self._keys) else ""

    def _tell(self, key: str) -> None:
        if key != self.chosen:
            self.chosen = key
            self.post_message(self.Chosen(self, key))


_LETTERS = 8  # the end of an id: its beginning is the time, which runs of one day share


def workflow_rows(overview: Overview, pattern: str = "") -> list[Row]:
    """Workflows whose id or name fits, each with a dot in the color of its newest run."""
    rows: list[Row] = []
    for each in overview.workflows:
        if fits(pattern, each.id, each.name):
            status = overview.last_status(each.id)
            dot = Text("●", COLORS[status]) if status is not None else Text("·", "dim")
            rows.append((each.id, (dot, Text(each.id), Text(shortened(each.name, 30), "dim"))))
    return rows


def run_rows(runs: Sequence[RunView]) -> list[Row]:
    now = wall_ms()
    rows: list[Row] = []
    for run in runs:
        took = None if run.started_at is None else max(0, (run.ended_at or now) - run.started_at)
        cells = (
            Text(run.run_id[-_LETTERS:]),
            Text(run.workflow_id),
            status_text(run.status),
            Text(ago(run.created_at), "dim"),
            Text("" if took is None else duration(took)),
        )
        rows.append((run.run_id, cells))
    return rows


def agent_rows(overview: Overview) -> list[Row]:
    rows: list[Row] = []
    for agent in overview.agents:
        use = f"{agent.running}/{agent.slots}" if agent.slots else str(agent.running)
        rows.append(
            (
                agent.agent_id,
                (Text(agent.agent_id), agent_state_text(agent), use, Text(ago(agent.last_seen), "dim")),
            )
        )
    return rows


def top_line(settings: FleetSettings, overview: Overview, away_since: int | None) -> Text:
    """Whether the principal answers, and the sums."""
    text = Text.assemble(("AgentFlow fleet  ", "bold"), settings.address(settings.principal_port), "  ")
    if away_since is not None:
        return text.append(f"● no answer for {span(wall_ms() - away_since)}", "bold red")
    text.append("● connected", "green")
    text.append(f"  {plural(len(overview.workflows), 'workflow')}, ", "dim")
    text.append(f"{plural(overview.open_runs, 'open run')}, ", "dim")
    text.append(plural(overview.live_agents, "agent"), "dim" if overview.live_agents else "yellow")
    if overview.problems:
        text.append(f"  {plural(len(overview.problems), 'problem')} in files", "bold yellow")
    return text


def fits(pattern: str, *texts: str) -> bool:
    """Whether a regular expression fits one of the texts; what is none is looked for as it stands."""
    try:
        found = re.compile(pattern, re.IGNORECASE)
    except re.error:
        found = re.compile(re.escape(pattern), re.IGNORECASE)
    return any(found.search(text) for text in texts)


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
            return Group(*_cut(rows), *_reasons(self.standing.run))
        if self.workflow is None:
            self.border_title = "DAG"
            return Text("no workflow is chosen", "dim")
        self.border_title = f"Workflow {self.workflow.id}"
        head = [Text(self.workflow.name, "bold")]
        head += [Text(self.workflow.description, "dim")] if self.workflow.description else []
        head += [Text(f"cron {self.workflow.cron}", "cyan")] if self.workflow.cron else []
        return Group(*_cut([*head, *graph(task_lines(self.workflow), now)]))


def _reasons(run: RunView) -> list[Text]:
    """Why a run waits, or ended as it did: in full, on as many lines as needed."""
    waits = [Text(f"waits: {run.waits}", "yellow")] if run.waits else []
    reason = ending_text(run)
    return [*waits, reason] if reason else waits


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
