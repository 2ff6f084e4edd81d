"""`afl doctor`, `afl prune` and `afl copy`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from afl.cli import options
from afl.cli.clients import chosen
from afl.cli.console import errors, output, print_json, say
from afl.client.store_client import open_client
from afl.fleet.settings import load_fleet_settings
from afl.kernel.errors import InputError
from afl.kernel.setting_kinds import mask_url
from afl.kernel.settings import load_settings
from afl.operations.doctor.diagnosis import diagnose
from afl.operations.doctor.store_checks import Finding, Level
from afl.operations.run.control import prune as prune_runs
from afl.operations.spans import DAY, date, plural, read_span
from afl.operations.store_copy import copy_store

_MARKS = {
    Level.OK: ("✓", "green"),
    Level.NOTE: ("·", "cyan"),
    Level.WARNING: ("!", "yellow"),
    Level.ERROR: ("✗", "red"),
}
_WIDTH = 17  # of the longest name of a check, and a blank


def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Remove other users' permissions on the files.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip checks that take long on a large SQLite file.")
    ] = False,
    store: options.Store = None,
    as_json: options.AsJson = False,
) -> None:
    """Look for problems with the store and its environment, and say what to do about them.

    Integrity, versions of tables, orphaned rows, leases of dead processes, clocks, disk space, permissions,
    harmful settings of servers, and whether notifications arrive; also of the Redis server (AFL_REDIS) and
    the NATS server (AFL_BUS, AFL_DOORBELL) that are configured, and the files of the fleet (CDKTR_DB_PATH) that
    are here. Exit code 1 if anything is wrong.

    [bold]Examples[/bold]

      afl doctor
      afl doctor --fix
      afl doctor --store postgresql://db/afl --json | jq '.findings\\[] | select(.level == "error")'
    """
    settings = load_settings({"store": store})
    found: list[Finding] = []
    with errors().status("") as status:
        for each in diagnose(
            settings,
            fix=fix,
            quick=quick,
            fleet_files=load_fleet_settings().files,
            begin=lambda what: status.update(f"Checking {what}"),
        ):
            found.append(each)
            if not as_json:
                _print(each)
    wrong = sum(each.is_wrong for each in found)
    if as_json:
        print_json(
            {
                "store": mask_url(settings.store),
                "wrong": wrong,
                "findings": [asdict(each) for each in found],
            }
        )
    else:
        say(_summary(wrong), "red" if wrong else "green")
    if wrong:
        raise typer.Exit(1)


def _print(finding: Finding) -> None:
    mark, color = _MARKS[finding.level]
    console = output()
    text = Text(finding.text)
    remedy = Text(f"→ {finding.remedy}", "dim")
    if not console.is_terminal:
        console.print(Text(f"{mark} {finding.check.ljust(_WIDTH)}").append_text(text))
        if finding.remedy:
            console.print(Text(" " * (_WIDTH + 2)).append_text(remedy))
        return
    shown = Table.grid(padding=(0, 1))
    shown.add_column(width=1)
    shown.add_column(width=_WIDTH - 1)
    shown.add_column(overflow="fold")
    shown.add_row(Text(mark, color), Text(finding.check, "bold"), text)
    if finding.remedy:
        shown.add_row("", "", remedy)
    console.print(shown)


def _summary(wrong: int) -> str:
    return f"{wrong} problem{'' if wrong == 1 else 's'} found." if wrong else "No problems found."


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
        raise InputError("give an age: --older-than 30d, or set AFL_RETENTION_DAYS")
    age = read_span(older_than) if older_than is not None else settings.retention_days * DAY
    with open_client(settings) as client, errors().status("Looking for old runs") as status:
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
        what = plural(done.runs, "run")
        if done.tasks:
            what += f" and {plural(done.tasks, 'task')} of no run"
        say(f"{verb} {what} that ended before {date(done.ended_before)}")


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="An SQLite store: sqlite:///.afl/afl.db.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="An empty PostgreSQL store: postgresql://db/afl.")
    ],
    as_json: options.AsJson = False,
) -> None:
    """Copy a store from SQLite to PostgreSQL: runs, tasks, schedules, flows, logs, turns; all of it or nothing.

    Stop everything that uses the file first. Open runs go on where they were as soon as a worker has the new store
    (AFL_STORE). The file stays as it is; start nothing on it again, since its open runs would go on there too.

    [bold]Examples[/bold]

      afl copy sqlite:///.afl/afl.db postgresql://db/afl
      AFL_STORE=postgresql://db/afl afl runner
    """
    with errors().status("Opening both stores") as status:
        done = copy_store(
            source, target, lambda table, rows: status.update(f"Copying {table}: {rows:,} rows")
        )
    if as_json:
        print_json(asdict(done))
    else:
        say(
            f"Copied {plural(done.runs, 'run')}, with all else {done.rows:,} rows of {len(done.tables)} tables."
        )
        say(f"Now set AFL_STORE={done.target}, and start nothing on {done.source} again.")
