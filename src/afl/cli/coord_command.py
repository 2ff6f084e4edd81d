"""`afl coord`: queues, agents, circuit breakers and dead letters of the coordination part."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.console import Table, output, print_json, say, shortened
from afl.cli.operation_command import operation_command
from afl.kernel.settings import load_settings
from afl.operations.message import coordination
from afl.operations.message import queues as message_queues
from afl.operations.message.coordination import BreakerLine, Where
from afl.operations.message.queues import Letter, Moved, QueueLine
from afl.operations.spans import ago, date, span

_STATES = {"closed": "green", "open": "red", "half_open": "yellow"}

_HELP = """Look at messages, agents and circuit breakers, and set them right.

[bold]Examples[/bold]

  afl coord queues
  afl coord breakers open external_service
  afl coord dlq requeue writer:1 --all
"""
_DLQ_HELP = """Dead letters: messages that will not be tried again.

[bold]Examples[/bold]

  afl coord dlq list
  afl coord dlq show writer:1 m-000017
"""

coord = options.command_group(_HELP)
dlq = options.command_group(_DLQ_HELP)
coord.add_typer(dlq, name="dlq")

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="type, or type:instance.")]
Letters = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of dead letters or of their messages.")
]
All = Annotated[bool, typer.Option("--all", help="All of this agent.")]


class Action(StrEnum):
    """What can be done to a circuit breaker."""

    OPEN = "open"
    CLOSE = "close"
    RESET = "reset"


def _where(redis: str | None, prefix: str) -> Where:
    return Where(load_settings({"redis": redis}).redis, prefix)


@coord.command("queues")
@operation_command(
    message_queues.queues,
    examples="""
        afl coord queues
        afl coord queues --redis redis://10.0.0.5:6379/0 --prefix myapp --json
    """,
)
def queues(found: list[QueueLine], *, prefix: str) -> None:
    shown = Table("AGENT", "READY", "DELAYED", "IN FLIGHT", "DEAD", "OLDEST")
    for each in found:
        oldest = each.oldest_ready_seconds
        shown.add(
            each.agent,
            str(each.ready),
            str(each.delayed),
            str(each.in_flight),
            Text(str(each.dead), "red" if each.dead else ""),
            "" if oldest is None else span(oldest * 1000),
        )
    shown.print(output()) if found else say(f"No queue under prefix {prefix} holds anything")


@coord.command("agents")
@operation_command(
    coordination.agents,
    examples="""
        afl coord agents
        afl coord agents --prefix myapp --json
    """,
)
def agents(found: list[dict[str, Any]], *, prefix: str) -> None:
    shown = Table("AGENT", "NAME", "ALIVE", "STATUS", "HEARTBEAT", "CAPABILITIES", below=["CAPABILITIES"])
    for each in found:
        kind, instance = each["agent_id"]["type"], each["agent_id"]["instance"]
        shown.add(
            kind if instance is None else f"{kind}:{instance}",
            each["name"] or "",
            Text("yes", "green") if each["alive"] else Text("no", "red"),
            _status(each["status"]),
            Text(ago(int(each["last_heartbeat"] * 1000)), "dim"),
            ", ".join(f"{one['name']} {one['version']}" for one in each["capabilities"]),
        )
    shown.print(output()) if found else say(f"No agent is registered under prefix {prefix}")


@coord.command("breakers")
def breakers(
    action: Annotated[Action | None, typer.Argument(help="What to do. Default: list them.")] = None,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The circuit breaker.")] = "",
    redis: options.Redis = None,
    prefix: options.Prefix = "ao",
    as_json: options.AsJson = False,
) -> None:
    """List the circuit breakers; or open, close or reset one, in every process.

    One that you open stays open until you close or reset it. [bold]close[/bold] forgets the failures,
    [bold]reset[/bold] the counts as well.

    [bold]Examples[/bold]

      afl coord breakers
      afl coord breakers open external_service
      afl coord breakers reset external_service
    """
    where = _where(redis, prefix)
    if action is None:
        found = coordination.breakers(where)
    elif not name:
        raise typer.BadParameter(f"say which one: afl coord breakers {action.value} NAME")
    else:
        found = [coordination.change_breaker(where, action.value, name)]
    if as_json:
        print_json([asdict(each) for each in found])
    elif not found:
        say(f"No circuit breaker is known under prefix {prefix}")
    else:
        _print_breakers(found)


@dlq.command("list")
@operation_command(
    message_queues.dead_letters,
    agent="[AGENT]",
    limit="--limit -n",
    examples="""
        afl coord dlq list
        afl coord dlq list writer:1 --limit 10
    """,
)
def dlq_list(found: list[Letter]) -> None:
    shown = Table("ID", "AGENT", "MESSAGE", "ATTEMPTS", "DIED", "REASON", below=["REASON"])
    for letter in found:
        shown.add(
            letter.dead_id,
            letter.agent,
            letter.message_id,
            str(letter.attempts) if letter.message else "",
            Text(letter.dead_at[:19], "dim"),
            Text(shortened(letter.reason), "red"),
        )
    shown.print(output()) if found else say("No dead letters")


@dlq.command("show")
def dlq_show(
    agent: Agent,
    dead_id: Annotated[str, typer.Argument(metavar="ID", help="Of the dead letter or its message.")],
    redis: options.Redis = None,
    prefix: options.Prefix = "ao",
) -> None:
    """Show one dead letter with its message, as JSON.

    [bold]Examples[/bold]

      afl coord dlq show writer:1 m-000017
    """
    print_json(asdict(message_queues.dead_letter(_where(redis, prefix), agent, dead_id)))


@dlq.command("requeue")
def dlq_requeue(
    agent: Agent,
    dead_ids: Letters = None,
    every: All = False,
    redis: options.Redis = None,
    prefix: options.Prefix = "ao",
    as_json: options.AsJson = False,
) -> None:
    """Put dead letters back in line, with no attempt counted.

    [bold]Examples[/bold]

      afl coord dlq requeue writer:1 m-000017
      afl coord dlq requeue writer:1 --all
    """
    ids = _chosen(dead_ids, every)
    _told(message_queues.requeue(_where(redis, prefix), agent, ids), "put back in line", as_json)


@dlq.command("purge")
def dlq_purge(
    agent: Agent,
    dead_ids: Letters = None,
    every: All = False,
    redis: options.Redis = None,
    prefix: options.Prefix = "ao",
    as_json: options.AsJson = False,
) -> None:
    """Delete dead letters for good.

    [bold]Examples[/bold]

      afl coord dlq purge writer:1 m-000017
      afl coord dlq purge writer:1 --all
    """
    ids = _chosen(dead_ids, every)
    _told(message_queues.purge(_where(redis, prefix), agent, ids), "deleted", as_json)


def _chosen(dead_ids: list[str] | None, every: bool) -> list[str] | None:
    """The ids, or None for all; one of both must be said."""
    if bool(dead_ids) == every:
        raise typer.BadParameter("name the ids of dead letters, or say --all")
    return None if every else dead_ids


def _told(moved: Moved, done: str, as_json: bool) -> None:
    if as_json:
        print_json(asdict(moved))
    else:
        say(f"{moved.letters} {'message was' if moved.letters == 1 else 'messages were'} {done}")


def _status(snapshot: Any) -> str:
    status = snapshot.get("status") if isinstance(snapshot, dict) else snapshot
    return "" if status is None else str(status)


def _print_breakers(found: list[BreakerLine]) -> None:
    shown = Table("BREAKER", "STATE", "FAILURES", "CALLS", "FAILED", "REFUSED", "SINCE", "")
    for each in found:
        waits = f"half open in {span(each.retry_after)}" if each.retry_after > 0 else ""
        shown.add(
            each.name,
            Text(each.state, _STATES[each.state]),
            str(each.failure_count),
            str(each.total_calls),
            str(each.failed_calls),
            str(each.rejected_calls),
            Text(date(each.since), "dim"),
            Text("opened by hand" if each.forced else waits, "yellow"),
        )
    shown.print(output())
