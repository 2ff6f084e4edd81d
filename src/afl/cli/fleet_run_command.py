"""`afl fleet run` and `afl fleet logs`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from afl.cli import options
from afl.cli.console import output, print_json, say
from afl.cli.fleet_display import Display, display_for, ending_text, frame_text, line_text
from afl.cli.interruption import leaving_on_interrupt
from afl.fleet.messages import LogLine, Status
from afl.fleet.settings import FleetSettings
from afl.kernel.clock import wall_ms
from afl.kernel.control_characters import escaped_json
from afl.kernel.errors import InputError
from afl.operations.fleet import fleet as operations
from afl.operations.fleet.fleet import LogFilter, LogQuery, settings_for
from afl.operations.fleet.fleet_dag import RunStanding
from afl.operations.fleet.fleet_follow import follow_logs, follow_run
from afl.operations.fleet.fleet_view import FleetStarted, run_data
from afl.operations.serialization import plain
from afl.operations.spans import read_span


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
        bool, typer.Option("--follow", "-f", help="Show the DAG and its log lines live, until it ends.")
    ] = False,
    host: options.Host = None,
    port: options.Port = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the id as JSON; with --follow the run, once it has ended.")
    ] = False,
) -> None:
    """Start a run of a workflow and print its id.

    With --follow the exit code is 0 if it completed, otherwise 1. Ctrl+C exits; the run continues.

    [bold]Examples[/bold]

      afl fleet run example
      afl fleet run example --follow --param name=Ada
      afl fleet run etl.daily --param table=customers --follow --json | jq .run.status
    """
    settings = settings_for(host, port)
    values: dict[str, Any] = dict(pair.split("=", 1) for pair in params or ())
    with operations.connected(settings) as client:
        run_id = operations.start(client, workflow, values)
        if not follow:
            if as_json:
                print_json(plain(FleetStarted(run_id, workflow)))
            else:
                typer.echo(run_id)
            return
    raise typer.Exit(_followed(settings, run_id, as_json))


def _followed(settings: FleetSettings, run_id: str, as_json: bool) -> int:
    display = display_for(quiet=as_json)

    def farewell() -> None:
        display.__exit__(None, None, None)
        say(f"run {run_id} continues: `afl fleet status {run_id}`, `afl fleet cancel {run_id}`")

    with leaving_on_interrupt(farewell):
        end = asyncio.run(_watched(settings, run_id, display))
    if as_json:
        print_json(plain(run_data(end)))
    elif reason := ending_text(end.run):
        say(reason)
    return 0 if end.run.status is Status.COMPLETED else 1


async def _watched(settings: FleetSettings, run_id: str, display: Display) -> RunStanding:
    end: RunStanding | None = None
    with display:
        async for news in follow_run(settings, run_id):
            display.show(news)
            if isinstance(news, RunStanding):
                end = news
    assert end is not None, "the last news is how the run ended"
    return end


_TAIL = 10


def logs(
    tail: Annotated[
        bool, typer.Option("--tail", "-t", help="The last ten lines, and new ones as they arrive.")
    ] = False,
    workflow: Annotated[str, typer.Option("--workflow", "-w", metavar="ID", help="Of this workflow.")] = "",
    run_id: Annotated[
        str, typer.Option("--run", "-i", metavar="RUN", help="Of this run: its id, or enough of it.")
    ] = "",
    task: Annotated[str, typer.Option("--task", metavar="TASK", help="Of this task: id or name.")] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="SPAN", help="Of the last 30s, 10m, 2h, 1d ...")
    ] = "",
    start: Annotated[
        str, typer.Option("--start", "-s", metavar="TIME", help="From this time on; UTC without an offset.")
    ] = "",
    end: Annotated[str, typer.Option("--end", "-e", metavar="TIME", help="Before this time.")] = "",
    grep: Annotated[
        str, typer.Option("--grep", "-g", metavar="REGEX", help="Only lines that match a regular expression.")
    ] = "",
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Full form: names and ids of workflow and task.")
    ] = False,
    host: options.Host = None,
    port: options.Port = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print log lines: what tasks wrote to their standard output and error.

    [bold]Examples[/bold]

      afl fleet logs --run 01jd3v
      afl fleet logs --workflow etl.daily --since 2h --grep 'ERROR|timeout'
      afl fleet logs --start 2026-01-20T02:00:00 --end 2026-01-20T03:00:00 -v
      afl fleet logs --tail --json | jq -r .payload
    """
    settings = settings_for(host, port)
    begin = _begin(since, start)
    with operations.connected(settings) as client:
        found = operations.find_run(client, run_id) if run_id else ""
        if workflow:
            operations.check_workflow(client, workflow)
        query = LogQuery(found, workflow, task, begin, _moment(end, "--end"), grep)
        printer = _Printer(verbose, as_json)
        if not tail:
            empty = True
            for line in operations.read_logs(client, query):
                printer.print(line)
                empty = False
            if task and empty:  # a task of an earlier definition may well have lines
                operations.check_task(client, query)
            return
        if task:
            operations.check_task(client, query)
        only = LogFilter(query, operations.workflows(client) if task else ())
    asyncio.run(_tailed(settings, query, only, printer, last=_TAIL if begin is None else 0))


async def _tailed(
    settings: FleetSettings, query: LogQuery, only: LogFilter, printer: _Printer, last: int
) -> None:
    def away() -> None:
        say("the principal does not answer; trying again", "yellow")

    async for lines in follow_logs(settings, query, only, last=last, away=away):
        for line in lines:
            printer.print(line)


class _Printer:
    def __init__(self, verbose: bool, as_json: bool) -> None:
        self._verbose = verbose
        self._as_json = as_json
        self._console: Console = output()

    def print(self, line: LogLine) -> None:
        """Print one line, unbuffered."""
        if self._as_json:
            typer.echo(escaped_json(msgspec.json.encode(line).decode()))
        elif self._verbose:
            typer.echo(frame_text(line, verbose=True))
        else:
            self._console.print(line_text(line), soft_wrap=True)


def _begin(since: str, start: str) -> int | None:
    if since and start:
        raise typer.BadParameter("say --since or --start, not both")
    if since:
        return wall_ms() - read_span(since)
    return _moment(start, "--start")


def _moment(text: str, option: str) -> int | None:
    """Milliseconds of a time as ISO 8601 writes it; without an offset it is UTC."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InputError(
            f"{option} is {text!r}; expected a time such as 2026-01-20T02:00:00+00:00"
        ) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
