"""`afl bulk`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.clients import client_for
from afl.cli.console import Table, can_ask, errors, output, print_json, say, shortened
from afl.client.store_client import OperationsClient
from afl.kernel.errors import InputError
from afl.operations import serialization
from afl.operations.parameters import RUN_STATES
from afl.operations.run.bulk import (
    ACTION_NAMES,
    PRUNE,
    BulkFailure,
    BulkPreview,
    BulkResult,
    bulk_prune,
    bulk_runs,
    preview_bulk,
)
from afl.operations.spans import date

_Action = StrEnum("_Action", {each.upper(): each for each in ACTION_NAMES})  # type: ignore[misc]
_State = StrEnum("_State", {each.upper(): each for each in RUN_STATES})  # type: ignore[misc]
_EACH_CALL = 500
_DONE = {
    "retry": "Retrying",
    "rerun": "Started again:",
    "cancel": "Canceled",
    "pause": "Paused",
    "unpause": "Unpaused",
    PRUNE: "Removed",
}


def _option(flag: str, metavar: str, text: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=text)


def bulk(
    action: Annotated[_Action, typer.Argument(help="What to do with each run.")],
    state: Annotated[_State | None, typer.Option("--state", help="Only runs in this state.")] = None,
    workflow: Annotated[str, _option("--workflow", "NAME", "Only runs of this workflow.")] = "",
    tag: Annotated[list[str] | None, _option("--tag", "KEY=VALUE", "Only runs with this tag.")] = None,
    text: Annotated[str, _option("--text", "TEXT", "Only runs with these words.")] = "",
    within: Annotated[str, _option("--within", "SPAN", "Only runs created within this long: 24h.")] = "",
    older_than: Annotated[str, _option("--older-than", "SPAN", "Only runs created longer ago: 30d.")] = "",
    longer_than: Annotated[
        str, _option("--longer-than", "SPAN", "Only runs that took at least this long.")
    ] = "",
    shorter_than: Annotated[
        str, _option("--shorter-than", "SPAN", "Only runs that took at most this long.")
    ] = "",
    min_cost: Annotated[float, _option("--min-cost", "USD", "Only runs that cost at least this.")] = 0,
    max_cost: Annotated[float, _option("--max-cost", "USD", "Only runs that cost at most this.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the matching runs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Retry, rerun, cancel, pause, unpause or prune every run that matches the filters; give at least one filter.

    The matching runs are shown first, and you are asked to confirm. Runs are processed one by one, newest first; if
    the command is interrupted, run it again to continue with the rest. The exit code is 1 if some could not be
    changed.

    [bold]Examples[/bold]

      afl bulk cancel --state waiting:person --older-than 30d --dry-run
      afl bulk retry --state failed --tag team=data --within 24h
      afl bulk rerun --workflow news.MorningPage --state failed --within 24h
      afl bulk pause --workflow news.MorningPage --yes
      afl bulk prune --state canceled --text berlin
    """
    filters: dict[str, Any] = {
        "state": state.value if state is not None else "",
        "workflow": workflow,
        "tags": tag or [],
        "text": text,
        "within": within,
        "older_than": older_than,
        "longer_than": longer_than,
        "shorter_than": shorter_than,
        "min_cost": min_cost,
        "max_cost": max_cost,
    }
    with client_for(store, server) as client:
        preview = client.call(preview_bulk, action.value, **filters)
        if dry_run:
            _show(preview, as_json)
            return
        if preview.count and not yes:
            _ask(preview)
        done = _act(client, action.value, filters) if preview.count else BulkResult(action.value, 0, [])
    _tell(done, as_json)
    if done.failed:
        raise typer.Exit(1)


def _show(preview: BulkPreview, as_json: bool) -> None:
    if as_json:
        print_json(serialization.plain(preview))
        return
    shown = Table("RUN", "STARTED", "STATE", "WORKFLOW", "")
    for each in preview.runs:
        name = " ".join(filter(None, (each.name, each.inputs)))
        started = Text(date(each.created), "dim")
        shown.add(each.run, started, each.status_words, each.workflow, Text(shortened(name), "dim"))
    if preview.runs:
        shown.print(output())
    say(f"Would {preview.action} {_amount(preview)}")


def _amount(preview: BulkPreview) -> str:
    return f"{preview.count:,}{'+' if preview.more else ''} run{'' if preview.count == 1 else 's'}"


def _ask(preview: BulkPreview) -> None:
    _show(preview, False)
    if not can_ask():
        raise InputError(f"this would {preview.action} {_amount(preview)}; add --yes to do it")
    typer.confirm(f"{preview.action.capitalize()} {_amount(preview)}?", abort=True)


def _act(client: OperationsClient, action: str, filters: dict[str, Any]) -> BulkResult:
    """Call after call, until there are no more."""
    done, failed, behind = 0, list[BulkFailure](), ""
    with errors().status("") as status:
        while True:
            given = {**filters, "before": behind, "limit": _EACH_CALL}
            part: BulkResult = (
                client.call(bulk_prune, **given)
                if action == PRUNE
                else client.call(bulk_runs, action, **given)
            )
            done, behind = done + part.done, part.next
            failed += [each for each in part.failed if each not in failed]
            if not behind:
                return BulkResult(action, done, failed)
            status.update(f"{_DONE[action]} {done:,} runs")


def _tell(done: BulkResult, as_json: bool) -> None:
    if as_json:
        print_json(serialization.plain(done))
        return
    if done.done or done.failed:
        say(f"{_DONE[done.action]} {done.done:,} run{'' if done.done == 1 else 's'}")
    else:
        say(f"No run to {done.action} matched the filters")
    for each in done.failed:
        say(f"Not {each.run}: {each.problem}", "red")
