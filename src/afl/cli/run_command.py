"""`afl run` and `afl resume`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from afl.bridges.service import BridgeService
from afl.cli import options
from afl.cli.console import duration, print_json, say
from afl.cli.displays import Display, display_for
from afl.cli.failures import failure_text, print_unknown_run
from afl.cli.interruption import leaving_on_interrupt
from afl.cli.people import ask_people, can_ask, waits_for_people
from afl.cli.programs import prepare
from afl.kernel.observing import start_tracing
from afl.kernel.settings import Settings, load_settings
from afl.operations.run import runs
from afl.operations.run.runs import RunReport, Waiting
from afl.operations.work.hosting import hosted_for
from afl.operations.work.offers import Offer, load_offer
from afl.runtime.evaluator import ExecutionStatus
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program_cache import ProgramCache

_AGENTS = typer.Option(
    "--agent",
    "-a",
    metavar="MODULE",
    help="A module with @handler functions: agents.py, news.agents, or agents.py:name. Repeatable.",
)
_CONCURRENCY = typer.Option("--concurrency", "-c", min=1, max=1000, help="How many handlers work at a time.")
_JSON = typer.Option("--json", help="Print status, run and outputs (or the error) as one JSON object.")
_QUIET = typer.Option("--quiet", "-q", help="No progress.")


def run(
    file: options.File,
    workflow: options.Workflow = None,
    inputs: options.Inputs = None,
    inputs_file: options.InputsFile = None,
    agents: Annotated[list[str] | None, _AGENTS] = None,
    libraries: options.Libraries = None,
    store: options.Store = None,
    concurrency: Annotated[int, _CONCURRENCY] = runs.DEFAULT_CONCURRENCY,
    budget_usd: options.BudgetUsd = None,
    budget_tokens: options.BudgetTokens = None,
    as_json: Annotated[bool, _JSON] = False,
    quiet: Annotated[bool, _QUIET] = False,
) -> None:
    """Run a workflow and print its outputs as JSON.

    Event facets are work for agents: functions marked with @handler.
    A step without an agent here makes the run pause; it goes on with
    [bold]afl resume[/bold], here or anywhere that reaches the store.

    [bold]Examples[/bold]

      afl run hello.afl --input name=Ada
      afl run news.afl news.MorningPage --inputs today.json --agent agents.py
      afl run research.afl --agent models.py:registry --budget-usd 0.50
      afl run news.afl --agent agents.py --store sqlite:///news.db | jq .page
    """
    prepared = prepare(file, workflow, inputs, inputs_file, libraries)
    load_offer(agents or ())  # what is wrong with them is told before there is a store
    settings = load_settings({"store": store})
    start_tracing(settings.telemetry, "afl-run")
    with ExitStack() as stack:
        opened = stack.enter_context(runs.opened(settings))
        offer = load_offer(agents or (), opened)
        bridges = stack.enter_context(hosted_for(opened, settings, offer, prepared.program))
        result = _watched(
            lambda display: runs.start(
                opened,
                prepared.program,
                prepared.inputs,
                handlers=offer.handlers,
                settings=settings,
                concurrency=concurrency,
                observer=display.progress,
                bridges=bridges,
                budget_usd=budget_usd,
                budget_tokens=budget_tokens,
            ),
            _again(agents, store),
            quiet,
        )
        place = _Place(opened, offer, settings, concurrency, bridges, _again(agents, store), quiet)
        result = place.with_people(result, as_json)
    _conclude(result, _again(agents, store), as_json, quiet, prepared.sources.get(str(file)))


def resume(
    run_id: options.Run,
    agents: Annotated[list[str] | None, _AGENTS] = None,
    store: options.Store = None,
    concurrency: Annotated[int, _CONCURRENCY] = runs.DEFAULT_CONCURRENCY,
    as_json: Annotated[bool, _JSON] = False,
    quiet: Annotated[bool, _QUIET] = False,
) -> None:
    """Go on with a run that was interrupted, killed, or waits for an agent.

    Steps that are done stay done. The program is the one the run was started with.

    [bold]Examples[/bold]

      afl resume 01jd3v --agent agents.py
    """
    settings = load_settings({"store": store})
    start_tracing(settings.telemetry, "afl-run")
    with ExitStack() as stack:
        opened = stack.enter_context(runs.opened(settings, create=False))
        offer = load_offer(agents or (), opened)
        found = print_unknown_run(lambda: runs.find(opened, run_id))
        program = ProgramCache(opened).load(found.program_hash)
        bridges = stack.enter_context(hosted_for(opened, settings, offer, program))
        place = _Place(opened, offer, settings, concurrency, bridges, _again(agents, store), quiet)
        result = place.with_people(place.resume(found.workflow_id), as_json)
    _conclude(result, _again(agents, store), as_json, quiet)


@dataclass(frozen=True)
class _Place:
    """Where a run goes on: what this process has for it."""

    store: PersistenceAPI
    offer: Offer
    settings: Settings
    concurrency: int
    bridges: BridgeService | None
    again: str
    quiet: bool

    def resume(self, run: str) -> RunReport:
        """Go on with a run until it ends, or until only others can."""
        return _watched(
            lambda display: runs.resume(
                self.store,
                run,
                handlers=self.offer.handlers,
                settings=self.settings,
                concurrency=self.concurrency,
                observer=display.progress,
                bridges=self.bridges,
            ),
            self.again,
            self.quiet,
        )

    def with_people(self, result: RunReport, as_json: bool) -> RunReport:
        """A run that waits for people only goes on here, if they are at this terminal."""
        while not as_json and waits_for_people(result) and can_ask() and ask_people(self.store, result.run):
            result = self.resume(result.run)
        return result


def _watched(work: Callable[[Display], RunReport], again: str, quiet: bool) -> RunReport:
    display = display_for(quiet=quiet)

    def farewell() -> None:
        display.__exit__(None, None, None)
        started = display.progress.run
        say(f"Interrupted. Go on with: afl resume {started}{again}" if started else "Interrupted.", "yellow")

    with leaving_on_interrupt(farewell), display:
        return work(display)


def _again(agents: list[str] | None, store: str | None) -> str:
    """The options that a later `afl resume` needs as well."""
    words = [word for agent in agents or () for word in ("--agent", agent)]
    words += ["--store", store] if store else []
    return "".join(f" {shlex.quote(word)}" for word in words)


def _conclude(result: RunReport, again: str, as_json: bool, quiet: bool, source: str | None = None) -> None:
    if as_json:
        print_json(_envelope(result))
    elif result.status == ExecutionStatus.COMPLETED:
        print_json(result.outputs)
    elif result.status == ExecutionStatus.PAUSED:
        print_json(_paused(result))
    if result.status == ExecutionStatus.PAUSED:
        _say_paused(result, again)
    elif result.error is not None:
        hint = f"afl show {result.run}"
        say(failure_text(result.run, result.workflow, result.error, source=source, hint=hint))
        raise typer.Exit(1)
    elif not quiet:
        took = duration(result.duration_ms)
        say(Text.assemble(("Completed", "green"), f" in {took}; afl show {result.run} shows the steps."))


def _paused(result: RunReport) -> dict[str, Any]:
    waiting = [
        {"facet": each.facet, "steps": each.steps, **({"via": each.via} if each.via else {})}
        for each in result.waiting_for
    ]
    reason = {"reason": result.reason} if result.reason else {}
    return {"status": result.status, "run": result.run, "waiting_for": waiting, **reason}


def _envelope(result: RunReport) -> dict[str, Any]:
    if result.status == ExecutionStatus.PAUSED:
        return _paused(result)
    base: dict[str, Any] = {"status": result.status, "run": result.run}
    if result.error is not None:
        return base | {"error": {name: value for name, value in asdict(result.error).items() if value}}
    return base | {"outputs": result.outputs}


def _waits(each: Waiting) -> str:
    """What some steps wait for, on a line."""
    steps = f" ({each.steps} steps)" if each.steps > 1 else ""
    kind, _, name = each.via.partition(":")
    if kind == "human":
        return f"{each.facet}{steps}: somebody of {name} is asked"
    if each.via:
        return f"{each.facet}{steps} is for {each.via}" + (f": {each.why}" if each.why else "")
    near = f"; there is one for {each.near}" if each.near else ""
    return f"no handler here for {each.facet}{steps}{near}"


def _say_paused(result: RunReport, again: str) -> None:
    if result.reason:
        text = Text.assemble(("Paused", "yellow"), f": run {result.run}, {result.reason}")
        say(text.append(f"\nGo on with: afl unpause {result.run}, then afl resume {result.run}{again}"))
        return
    people = waits_for_people(result)
    whom = "a person" if people else "an agent"
    text = Text.assemble(("Paused", "yellow"), f": run {result.run} waits for {whom}.")
    for each in result.waiting_for:
        text.append(f"\n  {_waits(each)}")
    if people:
        store = again[again.index(" --store") :] if " --store" in again else ""
        text.append(f"\nAnswer it: afl approvals{store}")
    options = again if "--agent" in again or people else f" --agent MODULE{again}"
    text.append(f"\nGo on with: afl resume {result.run}{options}")
    say(text)
