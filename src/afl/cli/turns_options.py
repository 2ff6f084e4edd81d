"""Options and arguments that the commands of `afl turns` take."""

from __future__ import annotations

from typing import Annotated

import typer

from afl.cli import clients
from afl.kernel.settings import Settings

Bus = Annotated[
    str | None,
    typer.Option("--bus", metavar="URL", help="local, or the address of a NATS server (AFL_BUS)."),
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="The agents' project (AFL_PROJECT).")
]
Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")]
Turn = Annotated[
    str,
    typer.Argument(
        metavar="[TURN|AGENT]",
        help="The turn's id, or enough of its beginning; an agent: its turn; nothing: the latest.",
    ),
]
Module = Annotated[
    str, typer.Argument(metavar="MODULE[:NAME]", help="A file or module that declares agents.")
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model", metavar="MODULE:NAME", help="What the agents think with; or a Claude model's name."
    ),
]


def chosen(store: str | None, bus: str | None, project: str | None, server: str | None = None) -> Settings:
    """The settings, with what was said on the command line."""
    if server is not None and (bus is not None or project is not None):
        raise typer.BadParameter("--bus and --project are the server's own; leave them out with --server")
    return clients.chosen(store, server, bus=bus, project=project)
