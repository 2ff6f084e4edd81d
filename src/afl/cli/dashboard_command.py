"""`afl dashboard`."""

from __future__ import annotations

from typing import Annotated

import typer

from afl.cli import options
from afl.cli.console import print_json, say
from afl.dashboard.server import serve
from afl.kernel.observing import observe
from afl.kernel.settings import load_settings
from afl.operations import access
from afl.operations.roles import Role
from afl.operations.work.alerting import alerting_beside

dashboard = options.command_group(runs_without_command=True)
_USER_HELP = """Who may use the dashboard and the HTTP API.

[bold]Examples[/bold]

  afl dashboard user add ada --role operator
  afl dashboard user list
"""
user = options.command_group(_USER_HELP)
dashboard.add_typer(user, name="user")

ConfigFile = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="The configuration file (AFL_CONFIG).")
]


@dashboard.callback()
def run(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where it listens.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port; 0 takes a free one.")
    ] = 8765,
    open_: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    store: options.Store = None,
) -> None:
    """Serve the dashboard and the HTTP API, until it is interrupted.

    On loopback it needs no token. Any other address requires a token (AFL_TOKEN) or users.

    [bold]Examples[/bold]

      afl dashboard
      afl dashboard --port 0 --open
      afl dashboard user add ada --role operator
      AFL_TOKEN=... afl dashboard --host 0.0.0.0
    """
    if context.invoked_subcommand is None:
        settings = load_settings({"store": store})
        observe(settings, "afl-dashboard")
        with alerting_beside(settings):
            serve(settings, host, port, lambda url: _ready(url, open_))


def _ready(url: str, show: bool) -> None:
    typer.echo(url)
    say("The dashboard is ready, its API at /api/v1. Ctrl+C stops it.", "dim")
    if show:
        typer.launch(url)


@user.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new name, or one that gets a new token.")],
    role: Annotated[Role, typer.Option("--role", help="What they may do.")] = Role.VIEWER,
    config: ConfigFile = None,
) -> None:
    """Add a user, and print their token. It cannot be looked up later: the file keeps only its hash.

    A viewer looks, an operator acts, an admin also prunes, purges and reads the audit log. A worker claims tasks and
    reports on them, and does nothing else.

    [bold]Examples[/bold]

      afl dashboard user add ada --role operator
      afl dashboard user add render-farm --role worker
    """
    path = access.config_path(config)
    replaces = name in access.list_users(path)
    token = access.add_user(path, name, role)
    typer.echo(token)
    replaced = f"{name} was replaced, and the old token no longer works; " if replaces else ""
    say(f"{replaced}{name} is {role} in {path}; restart a running dashboard to apply it")


@user.command("list")
def list_(config: ConfigFile = None, as_json: options.AsJson = False) -> None:
    """List the users.

    [bold]Examples[/bold]

      afl dashboard user list
    """
    path = access.existing_config_path(config)
    found = access.list_users(path)
    if as_json:
        print_json([{"name": name, "role": role} for name, role in found.items()])
        return
    for name, role in found.items():
        typer.echo(f"{name}  {role}")
    if not found:
        say(f"No users in {path}")


@user.command("remove")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who it is.")], config: ConfigFile = None
) -> None:
    """Remove a user and their token.

    [bold]Examples[/bold]

      afl dashboard user remove ada
    """
    path = access.existing_config_path(config)
    access.remove_user(path, name)
    say(f"{name} is no longer in {path}; restart a running dashboard to apply it")
