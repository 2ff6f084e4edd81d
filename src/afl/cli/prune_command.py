"""`afl prune`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from afl.cli import options
from afl.cli.clients import chosen
from afl.cli.console import errors, print_json, say
from afl.kernel.errors import InputError
from afl.operations.client import open_client
from afl.operations.run.retention import prune as prune_runs
from afl.operations.spans import DAY, date, read_span


def prune(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="SPAN", help="30d, 12h ...; else AFL_RETENTION_DAYS."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove runs that ended long ago, with their steps, tasks and logs, and tasks of no run, a few at a time.

    [bold]Examples[/bold]

      afl prune --older-than 30d --dry-run
      afl prune --older-than 30d
    """
    settings = chosen(store, server)
    if older_than is None and not settings.retention_days:
        raise InputError("say how old: --older-than 30d, or set AFL_RETENTION_DAYS")
    age = read_span(older_than) if older_than is not None else settings.retention_days * DAY
    with open_client(settings) as client, errors().status("Looking for what is old") as status:
        done = client.call(
            prune_runs,
            age,
            dry_run=dry_run,
            progress=lambda count: status.update(f"Removed {count:,} of them"),
        )
    if as_json:
        print_json(asdict(done))
    else:
        verb = "Would remove" if dry_run else "Removed"
        what = _counted(done.runs, "run")
        if done.tasks:
            what += f" and {_counted(done.tasks, 'task')} of no run"
        say(f"{verb} {what} that ended before {date(done.ended_before)}")


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
