"""`afl fleet run`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
import typer

from afl.cli import options
from afl.cli.console import print_json, say
from afl.cli.fleet_follow import Display, display_for
from afl.cli.interruption import leaving_on_interrupt
from afl.fleet.messages import Status
from afl.fleet.settings import FleetSettings
from afl.operations.fleet import fleet as operations
from afl.operations.fleet.fleet import settings_for
from afl.operations.fleet.fleet_dag import RunStanding
from afl.operations.fleet.fleet_follow import follow_run


def _pairs(given: list[str] | None) -> list[str] | None:
    """Refuse a parameter that is not written name=value, as wrong usage."""
    for pair in given or ():
        if "=" not in pair or pair.startswith("="):
            raise typer.BadParameter(f"a parameter is written name=value, got {pair!r}")
    return given


def run(
    workflow: Annotated[
        str, typer.Argument(metavar="ID", help="The workflow's id: etl/daily.yml is etl.daily.")
    ],
    params: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", callback=_pairs, help="A parameter. Repeatable."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show the DAG live and its lines, until it ended.")
    ] = False,
    host: options.Host = None,
    port: options.Port = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the run as JSON; with --follow, as it ended.")
    ] = False,
) -> None:
    """Start a run of a workflow and print its id.

    With --follow the exit code is 0 when it completed, else 1. Ctrl+C leaves; the run goes on.

    [bold]Examples[/bold]

      afl fleet run example
      afl fleet run example --follow --param name=Ada
      afl fleet run etl.daily --param table=customers --follow --json | jq .status
    """
    settings = settings_for(host, port)
    values: dict[str, Any] = dict(pair.split("=", 1) for pair in params or ())
    with operations.connected(settings) as client:
        run_id = operations.start(client, workflow, values)
        if not follow:
            if as_json:
                print_json(msgspec.to_builtins(operations.show_run(client, run_id).run))
            else:
                typer.echo(run_id)
            return
    raise typer.Exit(_followed(settings, run_id, as_json))


def _followed(settings: FleetSettings, run_id: str, as_json: bool) -> int:
    display = display_for(quiet=as_json)

    def farewell() -> None:
        display.__exit__(None, None, None)
        say(f"run {run_id} goes on: `afl fleet status {run_id}`, `afl fleet cancel {run_id}`")

    with leaving_on_interrupt(farewell):
        end = asyncio.run(_watched(settings, run_id, display))
    if as_json:
        tasks = [msgspec.to_builtins(task) for task in end.tasks]
        print_json({**msgspec.to_builtins(end.run), "tasks": [_without_guide(task) for task in tasks]})
    elif end.run.error:
        say(end.run.error, "red")
    return 0 if end.run.status is Status.COMPLETED else 1


def _without_guide(task: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in task.items() if key != "guide"}


async def _watched(settings: FleetSettings, run_id: str, display: Display) -> RunStanding:
    end: RunStanding | None = None
    with display:
        async for news in follow_run(settings, run_id):
            display.show(news)
            if isinstance(news, RunStanding):
                end = news
    assert end is not None, "the last news is how the run ended"
    return end
