"""`afl tasks`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.clients import client_for
from afl.cli.console import output, print_json, say
from afl.cli.failures import print_unknown_run
from afl.cli.tables import Table, shortened, state_text
from afl.operations.spans import span
from afl.operations.work.task_queue import TaskLine, list_tasks


class TaskState(StrEnum):
    """What --state takes for tasks."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    IGNORED = "ignored"
    CANCELED = "canceled"


def tasks(
    state: Annotated[
        TaskState | None, typer.Option("--state", help="Only tasks in this state; running and pending ones.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="FACET", help="Only tasks of this facet.")] = "",
    task_list: Annotated[str, typer.Option("--list", metavar="NAME", help="Only this task list.")] = "",
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="All tasks of one run.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many.")] = 50,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """List tasks: the work of agents, oldest first. Those under way come before those that wait.

    [bold]Examples[/bold]

      afl tasks
      afl tasks --state failed --name osm.Geocode
      afl tasks --run 01jd3v --json
    """
    wanted = state.value if state else ""
    with client_for(store, server) as client:
        found = print_unknown_run(
            lambda: client.call(
                list_tasks, state=wanted, name=name, task_list=task_list, run=run, limit=limit
            )
        )
    if as_json:
        print_json([asdict(each) for each in found])
        return
    shown = Table("TASK", "FACET", "STATE", "AGE", "TRIES", "LIST", "STEP", "", below=["STEP", ""])
    for each in found:
        shown.add(
            each.task,
            each.name,
            state_text(each.state, each.hold if each.state == TaskState.PENDING else ""),
            span(each.age_ms),
            _tries(each),
            each.task_list,
            f"{each.run}/{each.step}" if each.step else each.run,
            Text(shortened(each.error), "red") if each.error else Text(each.owner, "dim"),
        )
    shown.print(output()) if found else say("No tasks")


def _tries(line: TaskLine) -> str:
    lost = [f"{count} {word}" for count, word in ((line.deaths, "died"), (line.expiries, "expired")) if count]
    return f"{line.attempts} ({', '.join(lost)})" if lost else f"{line.attempts}"
