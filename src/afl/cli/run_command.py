"""`afl run` and `afl resume`: what they take. What they do is in `run_work`, so that --help does not load it."""

from __future__ import annotations

from typing import Annotated

import typer

from afl.cli import collector, options

_AGENTS = typer.Option(
    "--agent",
    "-a",
    metavar="MODULE",
    help="A module with @handler functions: agents.py, news.agents, or agents.py:name. Repeatable.",
)
_CONCURRENCY = typer.Option("--concurrency", "-c", min=1, max=1000, help="How many handlers work at a time.")
_JSON = typer.Option("--json", help="Print status, run and outputs (or the error) as one JSON object.")
_QUIET = typer.Option("--quiet", "-q", help="No progress.")
_DEFAULT_CONCURRENCY = (
    8  # that of `afl.operations.run.runs`, which takes a while to import; a test compares them
)


def run(
    file: options.File,
    workflow: options.Workflow = None,
    inputs: options.Inputs = None,
    inputs_object: options.InputsObject = None,
    agents: Annotated[list[str] | None, _AGENTS] = None,
    libraries: options.Libraries = None,
    store: options.Store = None,
    concurrency: Annotated[int, _CONCURRENCY] = _DEFAULT_CONCURRENCY,
    run_name: options.RunName = "",
    tags: options.Tags = None,
    budget_usd: options.BudgetUsd = None,
    budget_tokens: options.BudgetTokens = None,
    as_json: Annotated[bool, _JSON] = False,
    quiet: Annotated[bool, _QUIET] = False,
) -> None:
    """Run a workflow and print its outputs as JSON.

    Event facets are work for agents: functions marked with @handler.
    A step without an agent here makes the run pause; continue it with
    [bold]afl resume[/bold], here or anywhere that reaches the store.

    [bold]Examples[/bold]

      afl run hello.afl --input name=Ada
      afl run news.afl news.MorningPage --inputs today.json --agent agents.py
      afl run research.afl --agent models.py:registry --budget-usd 0.50
      afl run news.afl --agent agents.py --store sqlite:///news.db | jq .page
    """
    with collector.loading():  # all of the runtime: --help needs none of it
        from afl.cli import programs, run_work  # noqa: PLC0415

    prepared = programs.prepare(file, workflow, inputs, inputs_object, libraries)
    chosen = run_work.Choices(agents or [], store, concurrency, as_json, quiet)
    source = prepared.sources.get(str(file))
    labels = run_work.Labels(run_name, tags or [])
    run_work.start(
        chosen, prepared, source, labels=labels, budget_usd=budget_usd, budget_tokens=budget_tokens
    )


def resume(
    run_id: options.Run,
    agents: Annotated[list[str] | None, _AGENTS] = None,
    store: options.Store = None,
    concurrency: Annotated[int, _CONCURRENCY] = _DEFAULT_CONCURRENCY,
    as_json: Annotated[bool, _JSON] = False,
    quiet: Annotated[bool, _QUIET] = False,
) -> None:
    """Continue a run that was interrupted or killed, or that waits for an agent.

    Completed steps stay completed. The program is the one the run was started with.

    [bold]Examples[/bold]

      afl resume 01jd3v --agent agents.py
    """
    with collector.loading():
        from afl.cli import run_work  # noqa: PLC0415  as above

    run_work.resume(run_work.Choices(agents or [], store, concurrency, as_json, quiet), run_id)
