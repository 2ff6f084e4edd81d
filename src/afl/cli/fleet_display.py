"""Runs of the fleet as people see them: log lines, the DAG, a live display."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from afl.cli.console import duration, errors, output, shortened
from afl.fleet.messages import AgentView, LogLine, RunView, Status
from afl.fleet.protocol import LogFrame
from afl.kernel.clock import wall_ms
from afl.kernel.control_characters import visible_controls
from afl.operations.fleet.fleet import agent_state
from afl.operations.fleet.fleet_dag import RunStanding, TaskLine, ending
from afl.operations.fleet.fleet_follow import Away, News
from afl.operations.fleet.fleet_view import plain_payload

_LEVELS = {"ERROR": "red", "WARNING": "yellow", "DEBUG": "dim"}


def line_text(line: LogLine, *, task: bool = False) -> Text:
    """Time, where it comes from, and the text; what came from standard error is red. `task`: the task alone."""
    moment = datetime.fromtimestamp(line.timestamp_ms / 1000)
    text = Text(f"{moment:%H:%M:%S}.{line.timestamp_ms % 1000:03} ", "dim")
    if not task:
        text.append(f"{line.workflow_id} ", "bold").append(f"{line.workflow_instance_id[-6:]} ", "dim")
    text.append(f"{line.task_name}  ", "cyan")
    return text.append(plain_payload(line.payload), _LEVELS.get(line.level, ""))


def frame_text(line: LogLine, *, verbose: bool = False) -> str:
    """The line in the form of the reference's logs."""
    frame = LogFrame(
        line.workflow_id,
        line.workflow_name,
        line.workflow_instance_id,
        line.task_name,
        line.task_instance_id,
        line.timestamp_ms,
        line.level,
        line.payload,
    )
    return visible_controls(frame.shown(verbose))


COLORS = {
    Status.PENDING: "yellow",
    Status.WAITING: "yellow",
    Status.RUNNING: "cyan",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CRASHED: "bold red",
    Status.SKIPPED: "dim",
    Status.CANCELED: "magenta",
}
_MARKS = {
    Status.PENDING: "○",
    Status.WAITING: "○",
    Status.RUNNING: "●",
    Status.COMPLETED: "✓",
    Status.FAILED: "✗",
    Status.CRASHED: "✗",
    Status.SKIPPED: "⊘",
    Status.CANCELED: "■",
}
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_UNTOUCHED = "·"
_ALLOWED, _ALLOWED_MARK = "yellow", "!"
_WIDEST = 48


def status_text(status: Status | None) -> Text:
    """A status in its color."""
    return Text("") if status is None else Text(status.value, COLORS[status])


def ending_text(run: RunView) -> Text:
    """Why a run ended as it did, in the color of its status."""
    return Text(ending(run), COLORS[run.status])


_AGENT_COLORS = {"ready": "green", "busy": "cyan", "lost": "red"}


def agent_state_text(agent: AgentView) -> Text:
    """An agent's state in its color."""
    state = agent_state(agent)
    return Text(state, _AGENT_COLORS[state])


def graph(tasks: tuple[TaskLine, ...] | list[TaskLine], now: int, *, spinning: bool = False) -> list[Text]:
    """One line per task."""
    width = min(_WIDEST, max((len(_head(task)) for task in tasks), default=0))
    return [_row(task, now, width, spinning) for task in tasks]


def summary(standing: RunStanding, now: int) -> Text:
    """The run on one line: what it is, how it stands, how far it is."""
    run = standing.run
    text = Text.assemble((run.workflow_name, "bold"), "  ", status_text(run.status))
    text.append(f"  {standing.ended}/{len(standing.tasks)} tasks")
    allowed = standing.allowed_failures
    counts = standing.counts - Counter({Status.FAILED: allowed})
    for status in (Status.RUNNING, Status.FAILED, Status.CRASHED, Status.SKIPPED, Status.CANCELED):
        if counts[status]:
            text.append(f", {counts[status]} {status.value.lower()}", COLORS[status])
    if allowed:
        text.append(f", {allowed} failed (allowed)", _ALLOWED)
    took = standing.duration_ms(now)
    if took is not None:
        text.append(f"  {duration(took)}", "dim")
    if run.attempt > 1:
        text.append(f"  attempt {run.attempt}", "yellow")
    return text


def _head(task: TaskLine) -> str:
    return f"{task.guide}x {task.task_id}"


def color_of(task: TaskLine) -> str:
    """The color of where a task stands."""
    if task.failure_allowed:
        return _ALLOWED
    return "dim" if task.status is None else COLORS[task.status]


def _row(task: TaskLine, now: int, width: int, spinning: bool) -> Text:
    color = color_of(task)
    text = Text.assemble((task.guide, "dim"), (_mark(task, now, spinning), color), " ")
    text.append(task.task_id, "bold" if task.status is Status.RUNNING else color if _is_dim(task) else "")
    text.append(" " * max(0, width - text.cell_len))
    took = task.duration_ms(now)
    text.append(f"  {duration(took) if took is not None else '':>9}", "dim")
    text.append_text(_notes(task))
    text.rstrip()
    return text


def _is_dim(task: TaskLine) -> bool:
    return task.status in (None, Status.SKIPPED)


def _mark(task: TaskLine, now: int, spinning: bool) -> str:
    if task.status is Status.RUNNING and spinning:
        return _FRAMES[now // 100 % len(_FRAMES)]
    if task.failure_allowed:
        return _ALLOWED_MARK
    return _UNTOUCHED if task.status is None else _MARKS[task.status]


def _notes(task: TaskLine) -> Text:
    text = Text()
    if task.status in (Status.SKIPPED, Status.CANCELED, Status.CRASHED):
        word = task.status.value.lower()
        text.append("" if word in task.error.lower() else f"  {word}", COLORS[task.status])
    if task.attempt > 1:
        text.append(f"  attempt {task.attempt}", "yellow")
    if task.error:
        text.append(f"  {shortened(task.error)}", "" if task.status is None else color_of(task))
    elif task.exit_code:
        text.append(f"  exit code {task.exit_code}", color_of(task))
    if task.failure_allowed:
        text.append(" (allowed)", _ALLOWED)
    if task.joins:
        text.append(f"  ⇠ {', '.join(task.joins)}", "dim")
    if task.name != task.task_id and not task.error:
        text.append(f"  {shortened(task.name, 30)}", "dim")
    return text


_BAR_WIDTH = 32
_MARGIN_LINES = 4


class Display(Protocol):
    """Shows news of a run while it is entered."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, news: News) -> None: ...


def display_for(*, quiet: bool = False) -> Display:
    """The display that fits standard error. Lines go to standard output, unless that is kept for the result."""
    console = errors()
    lines = console if quiet or (console.is_terminal and sys.stdout.isatty()) else output()
    return LiveDisplay(console, lines) if console.is_terminal else LineDisplay(console, lines)


class LiveDisplay:
    """The DAG as it stands, below the lines that scroll by."""

    def __init__(self, console: Console, lines: Console) -> None:
        self._console = console
        self._lines = lines
        self._standing: RunStanding | None = None
        self._away = 0
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=10,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, news: News) -> None:
        self._away = news.attempts if isinstance(news, Away) else 0
        if isinstance(news, RunStanding):
            self._standing = news
        elif isinstance(news, list):
            for line in news:
                self._lines.print(line_text(line, task=True), soft_wrap=True)

    def render(self) -> RenderableType:
        """The DAG as of now; what does not fit is told as a number."""
        now = wall_ms()
        if self._standing is None:
            return Text("waiting for the principal", "dim")
        room = max(3, self._console.height - _MARGIN_LINES)
        kept, hidden = _most_telling(self._standing.tasks, room)
        rows: list[RenderableType] = list(graph(kept, now, spinning=True))
        for row in rows:
            if isinstance(row, Text):
                row.no_wrap, row.overflow = True, "ellipsis"
        if hidden:
            rows.append(Text(f"and {hidden} more tasks", "dim"))
        if self._away:
            rows.append(Text("the principal does not answer; the run continues; trying again", "yellow"))
        elif self._standing.run.status in (Status.PENDING, Status.WAITING):
            rows.append(Text(self._standing.run.waits or "waits for an agent with a free place", "yellow"))
        return Group(*rows, _bar(self._standing, now))


def _bar(standing: RunStanding, now: int) -> RenderableType:
    bad = any(
        task.status in (Status.FAILED, Status.CRASHED, Status.CANCELED) and not task.failure_allowed
        for task in standing.tasks
    )
    color = "red" if bad else "green"
    bar = ProgressBar(
        max(1, len(standing.tasks)),
        standing.ended,
        width=_BAR_WIDTH,
        complete_style=color if bad else "cyan",
        finished_style=color,
    )
    row = Table.grid(padding=(0, 2))
    row.add_row(bar, summary(standing, now))
    return row


def _most_telling(tasks: tuple[TaskLine, ...], room: int) -> tuple[list[TaskLine], int]:
    """The tasks that fit: those that run or failed first, then the latest that ended, then the next."""
    if len(tasks) <= room:
        return list(tasks), 0

    def weight(task: TaskLine) -> tuple[int, int]:
        if task.status in (Status.RUNNING, Status.FAILED, Status.CRASHED):
            return 0, 0
        return (1, -task.ended_at) if task.ended_at else (2, 0)

    numbers = sorted(range(len(tasks)), key=lambda number: (*weight(tasks[number]), number))[:room]
    return [tasks[number] for number in sorted(numbers)], len(tasks) - room


class LineDisplay:
    """One line per task that begins or ends, and the run's own lines."""

    def __init__(self, console: Console, lines: Console) -> None:
        self._console = console
        self._lines = lines
        self._known: dict[str, Status | None] = {}
        self._away = False
        self._waits = ""

    def __enter__(self) -> LineDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def show(self, news: News) -> None:
        if isinstance(news, Away):
            self._say_once("the principal does not answer; trying again")
            return
        self._away = False
        if isinstance(news, RunStanding):
            self._show_standing(news)
        else:
            self._show_lines(news)

    def _show_standing(self, standing: RunStanding) -> None:
        now = wall_ms()
        if standing.run.waits and standing.run.waits != self._waits:
            self._console.print(Text(standing.run.waits, "yellow"), soft_wrap=True)
        self._waits = standing.run.waits
        for task, row in zip(standing.tasks, graph(standing.tasks, now), strict=True):
            if task.status not in (None, Status.PENDING) and self._known.get(task.task_id) is not task.status:
                self._console.print(Text(f"{task.status.value:<10}", color_of(task)), row, sep="")
            self._known[task.task_id] = task.status

    def _show_lines(self, lines: list[LogLine]) -> None:
        for line in lines:
            self._lines.print(line_text(line, task=True), soft_wrap=True)

    def _say_once(self, text: str) -> None:
        if not self._away:
            self._console.print(Text(text, "yellow"))
        self._away = True
