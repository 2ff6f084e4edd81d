"""`afl why`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from afl.cli import options
from afl.cli.clients import client_for
from afl.cli.console import output, print_json
from afl.operations.reason.reasons import Outlook, Reason
from afl.operations.reason.why import why as reason_of

_COLOURS = {Outlook.MOVES: "cyan", Outlook.STANDS: "yellow", Outlook.OVER: ""}


def why(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="A run, task or server, by enough of its id; a step as RUN/path; the latest run.",
        ),
    ] = None,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Say why something does not move, and what to do about it.

    [bold]Examples[/bold]

      afl why                       the latest run
      afl why 01jd3v                a run, a task or a server
      afl why 01jd3v/desk.story     a step, whether it has begun or not
    """
    with client_for(store, server) as client:
        reason = client.call(reason_of, name)
    if as_json:
        print_json(_plain(reason))
    else:
        output().print(render(reason))


def render(reason: Reason) -> Group:
    """The chain of reasons, each below the one that rests on it, and what to do."""
    cause = reason.cause
    lines = []
    for depth, each in enumerate(reason.chain):
        text = Text.assemble((f"{each.kind} {each.id}: ", "dim"))
        text.append(each.sentence, f"bold {_COLOURS[reason.outlook]}" if each is cause else "")
        lines.append(Padding.indent(text, 2 * depth))
    action = Text.assemble("-> ", cause.action, (f"  [{cause.code}]", "dim"))
    return Group(*lines, action)


def _plain(reason: Reason) -> dict[str, Any]:
    cause = reason.cause
    return {
        "kind": reason.kind,
        "id": reason.id,
        "code": cause.code,
        "outlook": reason.outlook.value,
        "sentence": cause.sentence,
        "action": cause.action,
        "chain": [
            {"code": each.code, "kind": each.kind, "id": each.id, "sentence": each.sentence}
            for each in reason.chain
        ],
        "attempts": [asdict(each) for each in cause.attempts],
    }
