"""Options that several commands of `afl fleet` take."""

from __future__ import annotations

from typing import Annotated

import typer

from afl.fleet.settings import FleetSettings, load_fleet_settings

CONTEXT = {"help_option_names": ["-h", "--help"]}

Host = Annotated[
    str | None,
    typer.Option("--host", metavar="HOST", help="The principal's address (CDKTR_PRINCIPAL_HOST)."),
]
Port = Annotated[
    int | None,
    typer.Option("--port", "-p", metavar="PORT", help="Its port for requests (CDKTR_PRINCIPAL_PORT)."),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or enough of its beginning or end.")]
Limit = Annotated[
    int | None,
    typer.Option(
        "--max-concurrent-workflows",
        "-m",
        min=1,
        max=10_000,
        metavar="N",
        help="How many workflows at a time, and tasks of each (CDKTR_AGENT_MAX_CONCURRENCY).",
    ),
]


def chosen(host: str | None, port: int | None) -> FleetSettings:
    """The settings in force, with what the command line says."""
    return load_fleet_settings({"principal_host": host, "principal_port": port})
