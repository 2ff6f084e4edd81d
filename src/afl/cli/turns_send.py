"""`afl turns send`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.clients import chosen
from afl.cli.console import print_json, say
from afl.cli.turn_transcript import reason_text, status_text
from afl.operations.client import open_client
from afl.operations.turn import turns as operations
from afl.operations.turn.turn_reasons import TurnReason
from afl.operations.turn.turn_wait import wait_for_delivery
from afl.turns.cardbox.deliverable import Delivered


def send(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent is asked.")],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait, and print what it delivers.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long --wait waits.")
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME[=ABOUT]", help="A field its result must have. Repeatable."),
    ] = None,
    after: Annotated[
        str,
        typer.Option("--after", metavar="TURN", help="Go on from that turn: read what it read and wrote."),
    ] = "",
    correlation: Annotated[
        str | None,
        typer.Option("--correlation", metavar="ID", help="The same id again is the same turn."),
    ] = None,
    channel: Annotated[str, typer.Option("--channel", metavar="NAME", help="The channel.")] = "public",
    store: options.Store = None,
    bus: options.Bus = None,
    project: options.Project = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Ask an agent for a turn; a worker does it.

    Without --wait the turn's id is printed. With it, exit code 1 means that the turn did not succeed,
    3 that the time of --timeout was up; if nobody works on it, the reason is told after two seconds.

    [bold]Examples[/bold]

      afl turns send guide "Is it warm in Oslo?"
      afl turns send guide "Is it warm in Oslo?" --wait --field answer --field source=where you looked
      afl turns send guide "And in Bergen?" --wait --after guide
    """
    with open_client(chosen(store, server, bus=bus, project=project)) as client:
        turn = client.call(
            operations.send,
            agent,
            text,
            fields=_fields(field),
            after=after,
            correlation=correlation,
            channel=channel,
        )
        if not wait:
            if as_json:
                print_json({"turn": turn.agent_turn_id, "agent": turn.agent_id})
            else:
                print(turn.agent_turn_id)
            return
        delivered = wait_for_delivery(client, turn.agent_turn_id, timeout, stands=_say_why)
    if delivered is None:
        say(f"Turn {turn.agent_turn_id} is not over; `afl turns why {turn.agent_turn_id}` says why.")
        raise typer.Exit(3)
    _print_delivered(delivered, as_json)


def _fields(given: list[str] | None) -> dict[str, str] | None:
    pairs = [each.partition("=") for each in given or ()]
    if any(not name.strip() for name, _, _ in pairs):
        raise typer.BadParameter("a field is written name or name=description")
    return {name.strip(): about for name, _, about in pairs} or None


def _say_why(reason: TurnReason) -> None:
    say(reason_text(reason, "yellow").append("\n  Still waiting; Ctrl+C leaves the turn as it is.", "dim"))


def _print_delivered(delivered: Delivered, as_json: bool) -> None:
    if as_json:
        print_json(asdict(delivered))
    else:
        print(delivered.text)
    if not delivered.succeeded:
        say(Text.assemble(status_text(delivered.status), f": {delivered.error or delivered.text}"))
        raise typer.Exit(1)
