"""`afl retry`, `afl cancel`, `afl pause` and `afl unpause`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from afl.cli import options
from afl.cli.console import print_json, say
from afl.cli.failures import print_unknown_run
from afl.cli.problems import problem
from afl.kernel.settings import load_settings
from afl.operations import control, runs
from afl.operations.control import Change
from afl.runtime.persistence import PersistenceAPI


def retry(
    name: Annotated[
        str,
        typer.Argument(metavar="RUN|STEP", help="A run: all its failed steps. A step (RUN/path), or a task."),
    ],
    store: options.Store = None,
    as_json: options.AsJson = False,
) -> None:
    """Try failed steps again. What is done stays done; the run goes on from there.

    [bold]Examples[/bold]

      afl retry 01jd3v                    every failed step of the run
      afl retry 01jd3v/fetch\\[3].parse     one of them
    """
    with runs.opened(load_settings({"store": store}), create=False) as opened:
        done = control.retry(opened, name)
    if as_json:
        print_json(asdict(done))
    else:
        count = "1 step" if done.steps == 1 else f"{done.steps:,} steps"
        say(
            f"Retrying {count} of run {done.run}; it goes on with the next server (or: afl resume {done.run})"
        )


def cancel(run_id: options.Run, store: options.Store = None, as_json: options.AsJson = False) -> None:
    """End a run and its tasks, whoever works on them. [bold]afl retry[/bold] takes it up again.

    [bold]Examples[/bold]

      afl cancel 01jd3v
    """
    _apply(store, as_json, "Cancelled", control.cancel, run_id)


def pause(run_id: options.Run, store: options.Store = None, as_json: options.AsJson = False) -> None:
    """Stop a run where it stands. Tasks that run go on, and their results wait.

    [bold]Examples[/bold]

      afl pause 01jd3v
    """
    _apply(store, as_json, "Paused", control.pause, run_id)


def unpause(
    run_id: options.Run,
    budget_usd: options.BudgetUsd = None,
    budget_tokens: options.BudgetTokens = None,
    store: options.Store = None,
    as_json: options.AsJson = False,
) -> None:
    """Let a paused run go on, with another budget if its own is used up.

    [bold]Examples[/bold]

      afl unpause 01jd3v
      afl unpause 01jd3v --budget-usd 5
    """

    def change(opened: PersistenceAPI, run: str) -> Change:
        return control.unpause(opened, run, budget_usd=budget_usd, budget_tokens=budget_tokens)

    _apply(store, as_json, "Unpaused", change, run_id)


def _apply(
    store: str | None,
    as_json: bool,
    verb: str,
    change: Callable[[PersistenceAPI, str], Change],
    run_id: str,
) -> None:
    with runs.opened(load_settings({"store": store}), create=False) as opened:
        found = print_unknown_run(lambda: runs.find(opened, run_id))
        done = change(opened, found.workflow_id)
    if as_json:
        print_json(asdict(done))
    elif done.changed:
        say(f"{verb} run {done.run} of {done.workflow}")
    if not done.changed:
        problem(f"{done.why}; nothing was changed")
        raise typer.Exit(1)
