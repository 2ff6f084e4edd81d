"""`afl rerun` and `afl fork`."""

from __future__ import annotations

import typer

from afl.cli.console import say
from afl.cli.operation_command import operation_command
from afl.operations.program.submission import Submitted
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
    say(f"Started {started.workflow} again; the next server begins it (or: afl resume {started.run})")
    typer.echo(started.run)
