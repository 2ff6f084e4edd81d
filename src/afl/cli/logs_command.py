"""`afl logs`."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.clients import client_for
from afl.cli.completion import run_ids
from afl.cli.console import output, say
from afl.client.run_waits import read_log
from afl.operations.run.log_filter import LEVELS, LogFilter
from afl.operations.run.run_log import LogLine
from afl.operations.run.waiting import wait_a_while
from afl.operations.spans import clock

Level = StrEnum("Level", {each.upper(): each for each in LEVELS})  # type: ignore[misc]
_LEVELS = {"error": "red", "warning": "yellow"}


def logs(
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="The run's id, or its first characters, or RUN/STEP for one step. Default: the latest run.",
            autocompletion=run_ids,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the run ends.")
    ] = False,
    level: Annotated[
        Level | None, typer.Option("--level", help="Only entries of this level or a higher one.")
    ] = None,
    grep: Annotated[
        str,
        typer.Option(
            "--grep",
            metavar="TEXT",
            help="Only entries with this text in them or in their step, in any case.",
        ),
    ] = "",
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", min=1, metavar="NUMBER", help="Only entries of attempts with this number."),
    ] = None,
    step: Annotated[
        str, typer.Option("--step", metavar="STEP", help="Only entries of this step, and of steps inside it.")
    ] = "",
    store: options.Store = None,
    server: options.Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print what a run's agents and its workflow logged, with their progress, and each attempt that failed.

    [bold]Examples[/bold]

      afl logs 01jd3v
      afl logs -f 01jd3v
      afl logs 01jd3v --level warning
      afl logs 01jd3v --grep timeout
      afl logs 01jd3v/page --attempt 2
      afl logs 01jd3v --json | jq -r .message
    """
    run, _, inside = (run_id or "").partition("/")
    if inside and step:
        raise typer.BadParameter("give the step as RUN/STEP or by --step, not both")
    with client_for(store, server) as client:
        found = client.call(wait_a_while, run)
        console = output()
        empty = True
        wanted = LogFilter(level or "", grep, attempt or 0, step or inside)
        for line in read_log(client, found.run, follow=follow, wanted=wanted):
            empty = False
            if as_json:
                typer.echo(json.dumps(asdict(line)))
            else:
                console.print(_text(line))
    if empty and not as_json:
        say(f"Run {found.run} has no log entries{' that match' if wanted != LogFilter() else ''}")


def _text(line: LogLine) -> Text:
    text = Text.assemble((clock(line.time), "dim"), "  ")
    if line.step:
        text.append(f"{line.step}  ", "bold")
    if line.level in _LEVELS:
        text.append(f"{line.level}: ", _LEVELS[line.level])
    return text.append(line.text, "cyan" if line.progress is not None else "")
