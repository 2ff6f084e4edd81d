"""`afl ps`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.console import output, print_json, say
from afl.cli.tables import table
from afl.kernel.settings import load_settings
from afl.operations import runs
from afl.operations.spans import span
from afl.operations.workers import Liveness, Server, servers

_COLOURS = {
    Liveness.RUNNING: "green",
    Liveness.STARTING: "cyan",
    Liveness.HANGING: "yellow",
    Liveness.SILENT: "yellow",
    Liveness.DEAD: "red",
    Liveness.STOPPED: "dim",
    Liveness.FAILED: "red",
}
_GONE = (Liveness.STOPPED, Liveness.DEAD, Liveness.FAILED)
_SHOWN_HANDLERS = 4


def ps(
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Those that stopped, died or failed as well.")
    ] = False,
    store: options.Store = None,
    as_json: options.AsJson = False,
) -> None:
    """List the servers: whether they live, what they serve, how busy they are.

    [bold]Examples[/bold]

      afl ps
      afl ps --all
      afl ps --json | jq '.\\[] | select(.liveness == "dead")'
    """
    with runs.opened(load_settings({"store": store}), create=False) as opened:
        known = servers(opened)
    found = [each for each in known if every or each.liveness not in _GONE]
    if as_json:
        print_json([asdict(each) for each in found])
        return
    if found:
        _print(found)
    gone = len(known) - len(found)
    if not found:
        say("No server" + (f" now; {gone} stopped or died (afl ps --all)" if gone else ""))


def _print(found: list[Server]) -> None:
    console = output()
    shown = table("SERVER", "SERVICE", "HOST", "STATE", "PING", "LOAD", "DONE", "FAILED", "LIST", "HANDLERS")
    for each in found:
        shown.add_row(
            each.id,
            each.service,
            each.name,
            Text(each.liveness, _COLOURS[Liveness(each.liveness)]),
            Text(f"{span(each.ping_age_ms)} ago", "dim"),
            Text(each.use, "yellow" if each.is_full else ""),
            str(each.handled),
            Text(str(each.not_handled), "red" if each.not_handled else ""),
            each.task_list or "any",
            _handlers(each, cut=console.is_terminal),
        )
    console.print(shown)


def _handlers(server: Server, *, cut: bool) -> str:
    names = [*server.handlers, *(["(any event)"] if server.any_event else [])]
    kept = names[:_SHOWN_HANDLERS] if cut else names
    more = len(names) - len(kept)
    return ", ".join(kept) + (f" and {more} more" if more else "")
