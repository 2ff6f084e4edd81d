"""`afl tasks` and `afl ps`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.clients import client_for, looked_at
from afl.cli.console import Table, output, print_json, say, shortened, state_text
from afl.cli.operation_command import operation_command
from afl.operations.spans import span
from afl.operations.work.task_queue import TaskLine, list_tasks
from afl.operations.work.workers import Liveness, Server, servers, store_lock


@operation_command(
    list_tasks,
    state="--state",
    name="--name FACET",
    task_list="--list NAME",
    run="--run RUN",
    limit="--limit -n",
    examples="""
        afl tasks
        afl tasks --state failed --name osm.Geocode
        afl tasks --run 01jd3v --json
    """,
)
def tasks(found: list[TaskLine], *, store: str | None, server: str | None) -> None:
    shown = Table("TASK", "FACET", "STATE", "AGE", "TRIES", "LIST", "STEP", "", below=["LIST", "STEP", ""])
    for each in found:
        shown.add(
            each.task,
            each.name,
            state_text(each.state, each.waits),
            span(each.age_ms),
            _tries(each),
            each.task_list,
            f"{each.run}/{each.step}" if each.step else each.run,
            Text(shortened(each.error), "red") if each.error else Text(each.owner, "dim"),
        )
    shown.print(output()) if found else say(f"No tasks in {looked_at(store, server)}")


def _tries(line: TaskLine) -> str:
    counts = ((line.failures, "failed"), (line.deaths, "died"), (line.expiries, "expired"))
    lost = [f"{count} {word}" for count, word in counts if count]
    return f"{line.attempts} ({', '.join(lost)})" if lost else f"{line.attempts}"


_COLORS = {
    Liveness.RUNNING: "green",
    Liveness.STARTING: "cyan",
    Liveness.HANGING: "yellow",
    Liveness.SILENT: "yellow",
    Liveness.DEAD: "red",
    Liveness.STOPPING: "cyan",
    Liveness.STOPPED: "dim",
    Liveness.FAILED: "red",
}
_GONE = (Liveness.STOPPED, Liveness.DEAD, Liveness.FAILED)
_SHOWN_HANDLERS = 4


def ps(
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Include those that stopped, died or failed.")
    ] = False,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """List the servers: whether they are alive, what they serve, how busy they are.

    [bold]Examples[/bold]

      afl ps
      afl ps --all
      afl ps --all --json | jq '.\\[] | select(.liveness == "dead")'
    """
    with client_for(store, server) as client:
        known = client.call(servers)
        lock = client.call(store_lock)
    if lock.holder:
        say(f"Nobody can write to the store: {lock.holder} holds its write lock; {lock.remedy}.", "yellow")
    found = [each for each in known if every or each.liveness not in _GONE]
    if as_json:
        print_json([asdict(each) for each in found])
        return
    if found:
        _print(found, known)
    gone = len(known) - len(found)
    if not found:
        past = f" now; {gone} stopped or died (afl ps --all)" if gone else ""
        say(f"No server in {looked_at(store, server)}{past}")


def _print(found: list[Server], known: list[Server]) -> None:
    console = output()
    shown = Table(
        *("SERVER", "SERVICE", "HOST", "STATE", "PING", "LOAD", "COMPLETED", "FAILED", "LIST", "HANDLERS"),
        below=["LIST", "HANDLERS"],
    )
    length = _telling_length([each.id for each in known]) if console.is_terminal else None
    for each in found:
        shown.add(
            each.id[:length],
            each.service,
            each.name,
            Text(each.liveness, _COLORS[Liveness(each.liveness)]),
            Text(f"{span(each.ping_age_ms)} ago", "dim"),
            Text(each.use, "yellow" if each.is_full else ""),
            str(each.handled),
            Text(str(each.not_handled), "red" if each.not_handled else ""),
            each.task_list or "any",
            _handlers(each, cut=console.is_terminal),
        )
    shown.print(console)


def _telling_length(ids: list[str]) -> int:
    """How much of the ids tells them apart, at least eight letters: `afl why` takes the beginning of one."""
    longest = max(map(len, ids))
    return next((n for n in range(8, longest) if len({each[:n] for each in ids}) == len(ids)), longest)


def _handlers(server: Server, *, cut: bool) -> str:
    names = [*server.handlers, *(["(any event)"] if server.any_event else [])]
    if not names:
        return "(evaluates runs)" if server.evaluates else ""
    kept = names[:_SHOWN_HANDLERS] if cut else names
    more = len(names) - len(kept)
    return ", ".join(kept) + (f" and {more} more" if more else "")
