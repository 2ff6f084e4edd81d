"""`afl query`."""

from __future__ import annotations

from afl.cli.console import print_json, say
from afl.cli.operation_command import operation_command
from afl.operations.run.query import RunValues
from afl.operations.run.query import query as values_of


@operation_command(
    values_of,
    run="RUN",
    name="NAME",
    examples="""
        afl query 01jd3v                 all values that the run has published
        afl query 01jd3v progress        one of them
        afl query 01jd3v fetch           the results of the step fetch
    """,
)
def query(found: RunValues, *, name: str = "") -> None:
    if name:
        print_json(found.values[name])
    elif found.values:
        print_json(found.values)
    else:
        say(f"Run {found.run} has published nothing")
