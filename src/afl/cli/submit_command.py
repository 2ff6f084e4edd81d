"""`afl submit` and `afl wait`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from afl.cli import options
from afl.cli.clients import chosen, client_for
from afl.cli.console import duration, print_json, say
from afl.cli.failures import failure_text
from afl.cli.programs import prepare
from afl.client.run_waits import wait_for_run
from afl.client.store_client import OperationsClient, open_client
from afl.kernel.errors import InputError
from afl.operations.program.submission import check_run_id, read_tags, submit_source
from afl.operations.run import waiting
from afl.operations.spans import read_span
from afl.runtime.entities import RunnerState
from afl.runtime.errors import StepFailure

TIMED_OUT = 3


def submit(
    file: options.File,
    workflow: options.Workflow = None,
    inputs: options.Inputs = None,
    inputs_object: options.InputsObject = None,
    libraries: options.Libraries = None,
    run_id: options.RunId = None,
    run_name: options.RunName = "",
    tags: options.Tags = None,
    task_list: options.TaskList = None,
    budget_usd: options.BudgetUsd = None,
    budget_tokens: options.BudgetTokens = None,
    store: options.Store = None,
    server: options.Server = None,
    wait_for_it: Annotated[
        bool, typer.Option("--wait", help="Wait for the end, and print the outputs as JSON.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Store a run for any server to pick up, and print its id.

    Nothing runs here: `afl runner` evaluates it, agents do its work.

    [bold]Examples[/bold]

      afl submit hello.afl --input name=Ada
      afl submit news.afl news.MorningPage --inputs today.json --task-list night
      afl logs --follow $(afl submit news.afl)
      afl submit news.afl --wait | jq .page
      afl submit news.afl --id news-2026-11-17 --tag team=data
      afl submit research.afl --budget-usd 2.50
    """
    prepared = prepare(file, workflow, inputs, inputs_object, libraries)
    check_run_id(run_id or "")  # before there is a store
    settings = chosen(store, server, task_list=task_list)
    if settings.store.startswith("memory:") and not settings.server:
        raise InputError(
            "only this process sees a run in memory://, and it is gone with it; submit to a file or a server"
        )
    with open_client(settings, create=True) as client:
        submitted = client.call(
            submit_source,
            prepared.source.text,
            prepared.program.workflow.name,
            prepared.inputs,
            id=run_id or "",
            run_name=run_name,
            tags=read_tags(tags),
            name=prepared.source.name,
            libraries=prepared.libraries,
            task_list=settings.task_list,
            budget_usd=budget_usd,
            budget_tokens=budget_tokens,
        )
        if wait_for_it:
            greeting = f"run {submitted.run} of {submitted.workflow}"
            _conclude(_awaited(client, submitted.run, greeting=greeting), as_json)
        elif as_json:
            print_json(asdict(submitted))
        else:
            typer.echo(submitted.run)


def wait(
    run_id: options.Run,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="SPAN", help="Give up after this: 90s, 5m, 1h30m.")
    ] = None,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Wait until a run ends, and print its outputs as JSON.

    Exit code 0 if it completed, 1 if it failed or was canceled, 3 if the time was up.

    [bold]Examples[/bold]

      afl wait 01jd3v
      afl wait 01jd3v --timeout 5m && echo done
    """
    seconds = None if timeout is None else read_span(timeout) / 1000
    with client_for(store, server) as client:
        found = client.call(waiting.wait_a_while, run_id)
        _conclude(_awaited(client, found.run, seconds), as_json)


def _awaited(
    client: OperationsClient, run: str, seconds: float | None = None, *, greeting: str = ""
) -> waiting.RunEnd:
    try:
        if greeting:
            say(greeting, "dim")
        return wait_for_run(client, run, seconds)
    except KeyboardInterrupt:
        say(f"Run {run} continues; afl wait {run} waits again, afl cancel {run} ends it.", "yellow")
        raise


def _conclude(end: waiting.RunEnd, as_json: bool) -> None:
    if as_json:
        print_json(asdict(end))
    elif end.state == RunnerState.COMPLETED:
        print_json(end.outputs)
    if end.timed_out:
        say(f"Run {end.run} is still {end.state}; afl why {end.run} says what it is waiting for.", "yellow")
        raise typer.Exit(TIMED_OUT)
    if end.error is not None and end.state == RunnerState.FAILED:
        hint = f"afl show {end.run} shows its steps"
        failure = StepFailure.from_dict(end.error)
        say(failure_text(end.run, end.workflow, failure, hint=hint, attempts=end.attempts))
        raise typer.Exit(1)
    if end.state != RunnerState.COMPLETED:
        say(f"Run {end.run} was {end.state}{f': {end.reason}' if end.reason else ''}", "yellow")
        raise typer.Exit(1)
    say(f"Completed in {duration(end.duration_ms)}", "green")
