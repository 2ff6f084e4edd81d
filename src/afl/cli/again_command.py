"""`afl rerun` and `afl fork`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from afl.cli import options
from afl.cli.clients import client_for
from afl.cli.console import print_json, say
from afl.cli.operation_command import operation_command
from afl.cli.programs import compile_file
from afl.operations.program.sources import SourceText
from afl.operations.program.submission import Submitted
from afl.operations.run.fork import Forked
from afl.operations.run.fork import fork as fork_at
from afl.operations.run.rerun import rerun as start_again


@operation_command(
    start_again,
    run="RUN",
    texts="--input -i NAME=VALUE",
    id="--id ID",
    examples="""
        afl rerun 01jd3v                        with the inputs that it had
        afl rerun 01jd3v --input topic=science  with another topic
        afl wait $(afl rerun 01jd3v)
    """,
)
def rerun(started: Submitted) -> None:
    say(f"Started {started.workflow} again; the next server starts it (or: afl resume {started.run})")
    typer.echo(started.run)


def fork(
    run: options.Run,
    step: Annotated[
        str,
        typer.Argument(metavar="STEP", help="The step, as `afl show` prints it, such as fetch[3].parse."),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            callback=options.checked_pairs,
            help="An input of the step, parsed as JSON if its type allows. Repeatable.",
        ),
    ] = None,
    results: Annotated[
        list[str] | None,
        typer.Option(
            "--result",
            metavar="STEP.NAME=VALUE",
            callback=options.checked_pairs,
            help="A return value of a step that is kept. Repeatable.",
        ),
    ] = None,
    program: Annotated[
        Path | None, typer.Option("--program", metavar="FILE", help="Continue with another program.")
    ] = None,
    libraries: options.Libraries = None,
    run_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", callback=options.checked_id, help="The id of the new run."),
    ] = None,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Start a run again from a step, as a new run, and print its id.

    It keeps every completed step that does not depend on that step, and executes
    all others again. The original run is not changed.

    [bold]Examples[/bold]

      afl fork 01jd3v summarize
      afl fork 01jd3v summarize --set style=short
      afl fork 01jd3v fetch\\[3].parse --program news.afl
      afl fork 01jd3v summarize --result fetch.text='"Hello"'
    """
    sources = [] if program is None else list(compile_file(program, libraries or ())[1].items())
    name, source = sources[0] if sources else ("", "")
    with client_for(store, server) as client:
        forked = client.call(
            fork_at,
            run,
            step,
            texts=inputs,
            result_texts=results,
            source=source,
            name=name,
            libraries=[SourceText(text, each) for each, text in sources[1:]],
            id=run_id or "",
        )
    if as_json:
        print_json(asdict(forked))
        return
    _tell(forked)
    typer.echo(forked.run)


def _tell(forked: Forked) -> None:
    kept = "1 completed step is" if forked.kept == 1 else f"{forked.kept:,} completed steps are"
    again = "1 is" if forked.again == 1 else f"{forked.again:,} are"
    say(
        f"Forked run {forked.origin} at {forked.step}: {kept} kept, {again} executed again; "
        f"the next server continues it (or: afl resume {forked.run})"
    )
