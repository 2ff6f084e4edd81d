"""`afl list`."""

from __future__ import annotations

from rich.text import Text

from afl.cli.console import Table, duration, output, say, shortened, state_text
from afl.cli.operation_command import operation_command
from afl.operations.run.run_list import RunLine, RunPage, list_runs
from afl.operations.spans import date
from afl.runtime.entities import RunnerState, labels


@operation_command(
    list_runs,
    state="--state",
    workflow="--workflow NAME",
    tags="--tag KEY=VALUE",
    text="--text TEXT",
    limit="--limit -n",
    before="--before RUN",
    examples="""
        afl list
        afl list --state failed --workflow news.MorningPage
        afl list --tag team=data --text morning
        afl list --before 01jd3v      the page behind
    """,
)
def list_(page: RunPage) -> None:
    labeled = any(each.name or each.tags for each in page.runs)
    shown = Table(
        "RUN", "STARTED", "STATE", "TOOK", "WORKFLOW", *(["NAME"] if labeled else []), "", below=[""]
    )
    for each in page.runs:
        shown.add(
            each.run,
            Text(date(each.created), "dim"),
            state_text(each.state),
            duration(each.duration_ms),
            each.workflow,
            *([" ".join(filter(None, (each.name, *labels(each.tags))))] if labeled else []),
            _about(each),
        )
    shown.print(output()) if page.runs else say("No runs")
    if page.next:
        say(f"More: afl list --before {page.next}", "dim")


def _about(line: RunLine) -> Text:
    if line.error and line.state == RunnerState.FAILED:
        return Text(shortened(line.error), "red")
    if line.waiting and line.state == RunnerState.RUNNING:
        return Text(f"waits for {line.waiting:,} step{'s' if line.waiting > 1 else ''}", "yellow")
    if line.state == RunnerState.CREATED:
        return Text("not begun", "yellow")
    return Text(shortened(line.reason or (f"child of {line.parent}" if line.parent else "")), "dim")
