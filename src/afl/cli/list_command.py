"""`afl list`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.clients import client_for
from afl.cli.console import duration, output, print_json, say
from afl.cli.failures import print_unknown_run
from afl.cli.tables import Table, shortened, state_text
from afl.operations.run.run_list import RunLine, list_runs
from afl.operations.spans import date


class RunState(StrEnum):
    """What --state takes for runs."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


def list_(
    state: Annotated[RunState | None, typer.Option("--state", help="Only runs in this state.")] = None,
    workflow: Annotated[
        str, typer.Option("--workflow", metavar="NAME", help="Only runs of this workflow.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many.")] = 20,
    before: Annotated[str, typer.Option("--before", metavar="RUN", help="Only older ones than this.")] = "",
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """List runs, newest first.

    [bold]Examples[/bold]

      afl list
      afl list --state failed --workflow news.MorningPage
      afl list --before 01jd3v      the page behind
    """
    wanted = state.value if state else ""
    with client_for(store, server) as client:
        page = print_unknown_run(
            lambda: client.call(list_runs, state=wanted, workflow=workflow, before=before, limit=limit)
        )
    if as_json:
        print_json(asdict(page))
        return
    shown = Table("RUN", "STARTED", "STATE", "TOOK", "WORKFLOW", "", below=[""])
    for each in page.runs:
        shown.add(
            each.run,
            Text(date(each.created), "dim"),
            state_text(each.state),
            duration(each.duration_ms),
            each.workflow,
            _about(each),
        )
    shown.print(output()) if page.runs else say("No runs")
    if page.next:
        say(f"More: afl list --before {page.next}", "dim")


def _about(line: RunLine) -> Text:
    if line.error and line.state == RunState.FAILED:
        return Text(shortened(line.error), "red")
    if line.waiting and line.state == RunState.RUNNING:
        return Text(f"waits for {line.waiting:,} step{'s' if line.waiting > 1 else ''}", "yellow")
    if line.state == RunState.CREATED:
        return Text("not begun", "yellow")
    return Text(shortened(line.reason), "dim")
