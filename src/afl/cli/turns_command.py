"""`afl turns`: agents that converse and call tools."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from afl.cli import options, turns_sessions
from afl.cli.clients import chosen, looked_at
from afl.cli.console import Table, output, print_json, say, shortened, write
from afl.cli.operation_command import operation_command
from afl.cli.turns_sessions import SessionOption
from afl.cli.turns_transcript import (
    event_text,
    print_transcript,
    reason_text,
    say_how_it_ended,
    status_text,
)
from afl.cli.turns_work import chat, worker
from afl.client.store_client import open_client
from afl.client.turn_waits import wait_for_delivery
from afl.kernel.settings import load_settings
from afl.models.content import File
from afl.operations.spans import ago, date
from afl.operations.turn import turn_reasons, turn_view, turn_wait
from afl.operations.turn import turns as operations
from afl.operations.turn.sessions import send_to_session
from afl.operations.turn.turn_reasons import TurnReason
from afl.operations.turn.turn_store import TurnStore
from afl.operations.turn.turn_view import TurnView
from afl.operations.turn.turns import AgentLine, Stopped, TurnLine
from afl.turns.cardbox.deliverable import Delivered


def send(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The question for the agent.")],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait, and print the answer.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long --wait waits.")
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME[=ABOUT]", help="A field its result must have. Repeatable."),
    ] = None,
    after: Annotated[
        str,
        typer.Option("--after", metavar="TURN", help="Continue from that turn: read what it read and wrote."),
    ] = "",
    correlation: Annotated[
        str | None,
        typer.Option("--correlation", metavar="ID", help="The same id again is the same turn."),
    ] = None,
    session: SessionOption = "",
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="PATH", help="An image, audio or document for it. Repeatable."),
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
      afl turns send guide "Hello!" --wait --session user-42
      afl turns send guide "What is this?" --wait --file photo.png
    """
    with open_client(chosen(store, server, bus=bus, project=project)) as client:
        asked: dict[str, Any] = {"fields": _fields(field), "correlation": correlation}
        if file:
            asked["files"] = [File.of(path) for path in file]
        if session and (after or channel != "public"):
            raise typer.BadParameter(
                "--session already says what it continues; --after and --channel are for turns without a session"
            )
        if session:
            turn = client.call(send_to_session, session, text, agent, **asked)
        else:
            turn = client.call(operations.send, agent, text, after=after, channel=channel, **asked)
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
        write(f"{delivered.text}\n")
    say_how_it_ended(delivered)
    if not delivered.succeeded:
        raise typer.Exit(1)


_HELP = """Conversational agents: ask them, watch them, read what they did.

[bold]Examples[/bold]

  afl turns chat guide --module agents.py
  afl turns worker agents.py &
  afl turns send guide "Is it warm in Oslo?" --wait
  afl turns show
"""

turns = options.command_group(_HELP)
turns.command("worker")(worker)
turns.command("chat")(chat)
turns.command("send")(send)
turns.command("sessions")(turns_sessions.sessions)
turns.command("session")(turns_sessions.session)
turns.command("fork")(turns_sessions.fork)
turns.command("forget")(turns_sessions.forget)


@turns.command("show")
@operation_command(
    turn_view.show,
    name="[TURN|AGENT]",
    data=lambda view: {**asdict(view), "cost": view.cost},
    examples="""
        afl turns show
        afl turns show guide
        afl turns show 01k9z --edges
        afl turns show 01k9z --json | jq '.cards'
    """,
)
def show(
    view: TurnView,
    *,
    edges: Annotated[bool, typer.Option("--edges", help="Also show who asked whom.")] = False,
) -> None:
    print_transcript(view, output(), edges=edges)


@turns.command("list")
@operation_command(
    operations.turns,
    agent="[AGENT]",
    limit="--limit -n",
    examples="""
        afl turns list
        afl turns list guide --limit 5 --json
    """,
)
def list_(found: list[TurnLine], *, store: str | None, server: str | None) -> None:
    shown = Table("TURN", "AGENT", "ASKED", "STATUS", "", below=[""])
    for each in found:
        error = Text(shortened(each.error), "red")
        shown.add(each.turn, each.agent, Text(date(each.created), "dim"), status_text(each.status), error)
    shown.print(output()) if found else say(f"No turns yet in {looked_at(store, server)}")


@turns.command("agents")
@operation_command(
    operations.agents,
    examples="""
        afl turns agents
        afl turns agents --project support --json
    """,
)
def agents(found: list[AgentLine], *, project: str | None) -> None:
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
    name = load_settings({"project": project}).project
    shown.print(output()) if found else say(
        f"Project {name} has no agents; `afl turns worker MODULE` registers those of a module"
    )


@turns.command("tail")
def tail(
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only this agent.")] = "",
    words: Annotated[
        bool, typer.Option("--words", help="Also print the models' text as it arrives.")
    ] = False,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, metavar="N", help="Stop after this many; 0: never.")
    ] = 0,
    store: options.Store = None,
    bus: options.Bus = None,
    project: options.Project = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print the events of agents as they happen: states, steps, ends. Ctrl+C stops it.

    Without a server (--bus local) states and ends of other processes are heard; steps and words are not.

    [bold]Examples[/bold]

      afl turns tail
      afl turns tail guide --words --bus nats://localhost:4222
      afl turns tail --json | jq 'select(.kind == "task")'
    """
    where = TurnStore(chosen(store, bus=bus, project=project))
    console = output()

    async def print_events() -> None:
        left = count
        events = turn_wait.follow(where, agent, words=words, started=lambda: say("Listening.", "dim"))
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
@operation_command(
    operations.stop,
    name="AGENT|TURN",
    reason="--reason TEXT",
    examples="""
        afl turns stop guide
        afl turns stop 01k9z --reason "wrong question"
    """,
)
def stop(done: Stopped) -> None:
    late = "was over already" if done.late else "was told to stop"
    say(f"Turn {done.turn} of {done.agent} {late}")


@turns.command("why")
@operation_command(
    turn_reasons.why,
    name="[TURN|AGENT]",
    examples="""
        afl turns why
        afl turns why guide
    """,
)
def why(found: TurnReason) -> None:
    output().print(reason_text(found, "cyan" if found.moves else "yellow"), soft_wrap=True)
