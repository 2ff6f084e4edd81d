"""`afl schedule` and `afl schedules`."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.clients import chosen, client_for, looked_at
from afl.cli.console import Table, output, print_json, say, shortened
from afl.cli.programs import prepare
from afl.client.store_client import OperationsClient, open_client
from afl.operations.program.submission import read_tags
from afl.operations.spans import date
from afl.operations.work import timetable
from afl.operations.work.timetable import CatchUp, Overlap, WorkflowSchedule


def schedule(
    file: options.File,
    cron: Annotated[
        str,
        typer.Option("--cron", metavar="EXPRESSION", help="When: minute hour day month weekday, or @daily."),
    ],
    workflow: options.Workflow = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Its name. Default: the workflow's.")
    ] = "",
    zone: Annotated[str, typer.Option("--zone", metavar="ZONE", help="The time zone.")] = "UTC",
    catch_up: Annotated[
        CatchUp, typer.Option("--catch-up", help="Which missed times to run: none, the latest, all.")
    ] = CatchUp.LATEST,
    overlap: Annotated[
        Overlap,
        typer.Option("--overlap", help="While an earlier run is open: start one more, or skip the time."),
    ] = Overlap.ALLOW,
    time_input: Annotated[
        str, typer.Option("--time-input", metavar="NAME", help="The input that gets the time a run is for.")
    ] = "",
    inputs: options.Inputs = None,
    inputs_object: options.InputsObject = None,
    libraries: options.Libraries = None,
    tags: options.Tags = None,
    task_list: options.TaskList = None,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Start a workflow on a schedule. One of the same name is replaced; if it is paused, it stays so.

    Runners start its runs, each time once, however many of them are up.

    [bold]Examples[/bold]

      afl schedule news.afl news.MorningPage --cron "0 6 * * 1-5" --zone Europe/Berlin
      afl schedule clean.afl --cron @hourly --catch-up none --overlap skip --input days=7
    """
    timed = [f"{time_input}=2026-01-01T00:00:00+00:00"] if time_input else []  # checked as if it were given
    prepared = prepare(file, workflow, [*(inputs or ()), *timed], inputs_object, libraries)
    settings = chosen(store, server, task_list=task_list)
    with open_client(settings, create=True) as client:
        added = client.call(
            timetable.add_source,
            prepared.source.text,
            prepared.program.workflow.name,
            {name: value for name, value in prepared.inputs.items() if name != time_input},
            file=prepared.source.name,
            libraries=prepared.libraries,
            cron=cron,
            name=name,
            zone=zone,
            catch_up=catch_up,
            overlap=overlap,
            time_input=time_input,
            task_list=settings.task_list,
            tags=read_tags(tags),
        )
    if as_json:
        print_json(asdict(added))
    elif added.paused:
        say(f"Schedule {added.name}: it stays paused (afl schedules --unpause {shlex.quote(added.name)})")
    else:
        say(f"Schedule {added.name}: first {date(added.due) if added.due else 'never'}")


def schedules(
    remove: Annotated[str, typer.Option("--remove", metavar="NAME", help="Delete this schedule.")] = "",
    pause: Annotated[str, typer.Option("--pause", metavar="NAME", help="Pause this schedule.")] = "",
    unpause: Annotated[str, typer.Option("--unpause", metavar="NAME", help="Continue this schedule.")] = "",
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """List the schedules, or change one.

    [bold]Examples[/bold]

      afl schedules
      afl schedules --pause news.MorningPage
      afl schedules --remove news.MorningPage
    """
    with client_for(store, server) as client:
        for name, change in ((remove, _remove), (pause, _pause), (unpause, _unpause)):
            if name:
                change(client, name)
        found = client.call(timetable.schedules)
    if as_json:
        print_json([asdict(each) for each in found])
    elif found:
        _print(found)
    else:
        say(f"No schedules in {looked_at(store, server)}")


def _remove(client: OperationsClient, name: str) -> None:
    client.call(timetable.remove, name)
    say(f"Removed schedule {name}; the runs that it started stay")


def _pause(client: OperationsClient, name: str) -> None:
    client.call(timetable.pause, name)
    say(f"Paused schedule {name}")


def _unpause(client: OperationsClient, name: str) -> None:
    again = client.call(timetable.pause, name, paused=False)
    say(f"Unpaused schedule {name}: next {date(again.due) if again.due else 'never'}")


def _print(found: list[WorkflowSchedule]) -> None:
    shown = Table("SCHEDULE", "WORKFLOW", "CRON", "ZONE", "NEXT", "LAST", "", below=["NEXT", "LAST", ""])
    for each in found:
        shown.add(
            each.name,
            each.workflow,
            each.cron,
            each.zone,
            Text("paused", "yellow")
            if each.paused
            else date(each.due)
            if each.due
            else Text("never", "yellow"),
            Text(date(each.fired) if each.fired else "", "dim"),
            Text(shortened(each.error), "red"),
        )
    shown.print(output())
