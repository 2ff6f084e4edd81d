"""`afl turns`: agents that converse and call tools."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.console import output, print_json, say
from afl.cli.tables import Table, shortened
from afl.cli.turn_events_text import event_text
from afl.cli.turn_transcript import print_transcript, reason_text, status_text
from afl.cli.turns_options import Bus, Project, Turn, chosen
from afl.cli.turns_send import send
from afl.cli.turns_work import chat, worker
from afl.operations.client import open_client
from afl.operations.spans import ago, date
from afl.operations.turn import turn_events, turn_reasons, turn_view
from afl.operations.turn import turns as operations

_CONTEXT = {"help_option_names": ["-h", "--help"]}
_HELP = """Agents that converse and call tools: ask them, watch them, read what they did.

[bold]Examples[/bold]

  afl turns chat guide --module agents.py
  afl turns worker agents.py &
  afl turns send guide "Is it warm in Oslo?" --wait
  afl turns show
"""

turns = typer.Typer(
    help=_HELP,
    rich_markup_mode="rich",
    context_settings=_CONTEXT,
    add_completion=False,
    no_args_is_help=True,
)
turns.command("worker")(worker)
turns.command("chat")(chat)
turns.command("send")(send)


@turns.command("show")
def show(
    turn: Turn = "",
    edges: Annotated[bool, typer.Option("--edges", help="Who asked whom, too.")] = False,
    store: options.Store = None,
    bus: Bus = None,
    project: Project = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a turn as a transcript: what it was asked, its steps, calls and answers, what it delivered.

    [bold]Examples[/bold]

      afl turns show
      afl turns show guide
      afl turns show 01k9z --edges
      afl turns show 01k9z --json | jq '.cards'
    """
    with open_client(chosen(store, bus, project, server)) as client:
        view = client.call(turn_view.show, turn)
    if as_json:
        print_json(asdict(view) | {"cost": view.cost})
    else:
        print_transcript(view, output(), edges=edges)


@turns.command("list")
def list_(
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only turns of this agent.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many.")] = 20,
    store: options.Store = None,
    bus: Bus = None,
    project: Project = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """List turns, newest first.

    [bold]Examples[/bold]

      afl turns list
      afl turns list guide --limit 5 --json
    """
    with open_client(chosen(store, bus, project, server)) as client:
        found = client.call(operations.turns, agent, limit)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    if not found:
        say("No turns yet")
        return
    shown = Table("TURN", "AGENT", "ASKED", "STATUS", "", below=[""])
    for each in found:
        error = Text(shortened(each.error), "red")
        shown.add(each.turn, each.agent, Text(date(each.created), "dim"), status_text(each.status), error)
    shown.print(output())


@turns.command("agents")
def agents(
    store: options.Store = None,
    bus: Bus = None,
    project: Project = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """List the agents of a project: where each one is, and what waits for it.

    [bold]Examples[/bold]

      afl turns agents
      afl turns agents --project support --json
    """
    settings = chosen(store, bus, project, server)
    with open_client(settings) as client:
        found = client.call(operations.agents)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    if not found:
        say(f"Project {settings.project} has no agents; `afl turns worker MODULE` brings some")
        return
    shown = Table("AGENT", "STATUS", "TURN", "QUEUED", "TOOLS", "TARGET", "SINCE", "TAGS", below=["TAGS"])
    for each in found:
        shown.add(
            each.agent,
            status_text(each.status if each.active else "inactive"),
            each.turn,
            Text(str(each.queued), "yellow" if each.queued else ""),
            str(each.waiting_tools or ""),
            each.target,
            Text(ago(each.since) if each.since else "", "dim"),
            ", ".join(each.tags),
        )
    shown.print(output())


@turns.command("tail")
def tail(
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only this agent.")] = "",
    words: Annotated[bool, typer.Option("--words", help="What models say while they say it, too.")] = False,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, metavar="N", help="End after so many; 0: never.")
    ] = 0,
    store: options.Store = None,
    bus: Bus = None,
    project: Project = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print what agents tell, as it happens: states, steps, ends. Ctrl+C ends it.

    Without a server (--bus local) states and ends of other processes are heard; steps and words are not.

    [bold]Examples[/bold]

      afl turns tail
      afl turns tail guide --words --bus nats://localhost:4222
      afl turns tail --json | jq 'select(.kind == "task")'
    """
    settings = chosen(store, bus, project)
    console = output()

    async def print_events() -> None:
        left = count
        events = turn_events.follow(settings, agent, words=words, started=lambda: say("Listening.", "dim"))
        async for event in events:
            if as_json:
                typer.echo(json.dumps(asdict(event)))
            else:
                console.print(event_text(event))
            left -= 1
            if left == 0:
                return

    with suppress(KeyboardInterrupt):
        asyncio.run(print_events())


@turns.command("stop")
def stop(
    name: Annotated[
        str, typer.Argument(metavar="AGENT|TURN", help="A turn, or the agent whose turn is to end.")
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for those who read it later.")
    ] = "stopped by an operator",
    store: options.Store = None,
    bus: Bus = None,
    project: Project = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """End a turn, and all that it set off. It ends as canceled, with what there is by then.

    [bold]Examples[/bold]

      afl turns stop guide
      afl turns stop 01k9z --reason "wrong question"
    """
    with open_client(chosen(store, bus, project, server)) as client:
        done = client.call(operations.stop, name, reason)
    if as_json:
        print_json(asdict(done))
    elif done.late:
        say(f"Turn {done.turn} of {done.agent} was over already")
    else:
        say(f"Turn {done.turn} of {done.agent} is asked to end")


@turns.command("why")
def why(
    turn: Turn = "",
    store: options.Store = None,
    bus: Bus = None,
    project: Project = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Say why a turn does not move, and what to do.

    [bold]Examples[/bold]

      afl turns why
      afl turns why guide
    """
    with open_client(chosen(store, bus, project, server)) as client:
        found = client.call(turn_reasons.why, turn)
    if as_json:
        print_json(asdict(found))
        return
    output().print(reason_text(found, "cyan" if found.moves else "yellow"), soft_wrap=True)
