"""`afl retry`, `afl cancel`, `afl pause` and `afl unpause`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from afl.cli import options
from afl.cli.clients import client_for
from afl.cli.console import print_json, say
from afl.cli.failures import print_unknown_run
from afl.cli.problems import problem
from afl.operations.client import OperationsClient
from afl.operations.run import control
from afl.operations.run.control import Change


def retry(
    name: Annotated[
        str,
        typer.Argument(metavar="RUN|STEP", help="A run: all its failed steps. A step (RUN/path), or a task."),
    ],
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Try failed steps again. What is done stays done; the run goes on from there.

    [bold]Examples[/bold]

      afl retry 01jd3v                    every failed step of the run
      afl retry 01jd3v/fetch\\[3].parse     one of them
    """
    with client_for(store, server) as client:
        done = client.call(control.retry, name)
    if as_json:
        print_json(asdict(done))
    else:
        count = "1 step" if done.steps == 1 else f"{done.steps:,} steps"
        say(
            f"Retrying {count} of run {done.run}; it goes on with the next server (or: afl resume {done.run})"
        )


def cancel(
    run_id: options.Run,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """End a run and its tasks, whoever works on them. [bold]afl retry[/bold] takes it up again.

    [bold]Examples[/bold]

      afl cancel 01jd3v
    """
    _tell(_ask(store, server, lambda client: client.call(control.cancel, run_id)), "Cancelled", as_json)


def pause(
    run_id: options.Run,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Stop a run where it stands. Tasks that run go on, and their results wait.

    [bold]Examples[/bold]

      afl pause 01jd3v
    """
    _tell(_ask(store, server, lambda client: client.call(control.pause, run_id)), "Paused", as_json)


def unpause(
    run_id: options.Run,
    budget_usd: options.BudgetUsd = None,
    budget_tokens: options.BudgetTokens = None,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Let a paused run go on, with another budget if its own is used up.

    [bold]Examples[/bold]

      afl unpause 01jd3v
      afl unpause 01jd3v --budget-usd 5
    """

    def change(client: OperationsClient) -> Change:
        return client.call(control.unpause, run_id, budget_usd=budget_usd, budget_tokens=budget_tokens)

    _tell(_ask(store, server, change), "Unpaused", as_json)


def _ask(store: str | None, server: str | None, change: Callable[[OperationsClient], Change]) -> Change:
    with client_for(store, server) as client:
        return print_unknown_run(lambda: change(client))


def _tell(done: Change, verb: str, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
    elif done.changed:
        say(f"{verb} run {done.run} of {done.workflow}")
    if not done.changed:
        problem(f"{done.why}; nothing was changed")
        raise typer.Exit(1)
