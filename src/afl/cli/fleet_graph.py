"""A DAG of the fleet as lines of text: every task with its mark, colour, duration and error."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from afl.cli.console import duration
from afl.cli.tables import shortened
from afl.fleet.messages import Status
from afl.operations.fleet.fleet_dag import RunStanding, TaskLine

COLOURS = {
    Status.PENDING: "yellow",
    Status.WAITING: "yellow",
    Status.RUNNING: "cyan",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CRASHED: "bold red",
    Status.SKIPPED: "dim",
    Status.CANCELLED: "magenta",
}
_MARKS = {
    Status.PENDING: "○",
    Status.WAITING: "○",
    Status.RUNNING: "●",
    Status.COMPLETED: "✓",
    Status.FAILED: "✗",
    Status.CRASHED: "✗",
    Status.SKIPPED: "⊘",
    Status.CANCELLED: "■",
}
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_UNTOUCHED = "·"
_ALLOWED, _ALLOWED_MARK = "yellow", "!"
_WIDEST = 48


def status_text(status: Status | None) -> Text:
    """A status in its colour."""
    return Text("") if status is None else Text(status.value, COLOURS[status])


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
    for status in (Status.RUNNING, Status.FAILED, Status.CRASHED, Status.SKIPPED, Status.CANCELLED):
        if counts[status]:
            text.append(f", {counts[status]} {status.value.lower()}", COLOURS[status])
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


def colour_of(task: TaskLine) -> str:
    """The colour of where a task stands."""
    if task.failure_allowed:
        return _ALLOWED
    return "dim" if task.status is None else COLOURS[task.status]


def _row(task: TaskLine, now: int, width: int, spinning: bool) -> Text:
    colour = colour_of(task)
    text = Text.assemble((task.guide, "dim"), (_mark(task, now, spinning), colour), " ")
    text.append(task.task_id, "bold" if task.status is Status.RUNNING else colour if _is_dim(task) else "")
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
    if task.status in (Status.SKIPPED, Status.CANCELLED, Status.CRASHED):
        word = task.status.value.lower()
        text.append("" if word in task.error.lower() else f"  {word}", COLOURS[task.status])
    if task.attempt > 1:
        text.append(f"  attempt {task.attempt}", "yellow")
    if task.error:
        text.append(f"  {shortened(task.error)}", "" if task.status is None else colour_of(task))
    elif task.exit_code:
        text.append(f"  exit code {task.exit_code}", colour_of(task))
    if task.failure_allowed:
        text.append(" (allowed)", _ALLOWED)
    if task.joins:
        text.append(f"  ⇠ {', '.join(task.joins)}", "dim")
    if task.name != task.task_id and not task.error:
        text.append(f"  {shortened(task.name, 30)}", "dim")
    return text
