"""The work of `afl run` and `afl resume`: a run in this process, shown as it goes, with questions to people."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from afl.cli.console import can_ask, duration, print_json, say
from afl.cli.displays import Display, display_for
from afl.cli.failures import failure_text
from afl.cli.interruption import leaving_on_interrupt
from afl.cli.programs import Prepared
from afl.kernel.observing import start_tracing
from afl.kernel.settings import Settings, load_settings
from afl.operations.program.submission import read_tags
from afl.operations.run import runs
from afl.operations.run.runs import RunReport, Waiting
from afl.operations.work.hosting import hosted_for
from afl.operations.work.offers import Offer, load_offer
from afl.runtime.evaluator import ExecutionStatus
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.cache import ProgramCache
from afl.runtime.task_handlers.capture import capturing
from afl.runtime.task_handlers.signatures import check_handlers, near_misses

if TYPE_CHECKING:
    from afl.bridges.service import BridgeService


_HUMAN = "human:"


def waits_for_people(result: RunReport) -> bool:
    """Whether nothing but answers of people keeps a run."""
    waiting = result.waiting_for if result.status == ExecutionStatus.PAUSED and not result.reason else []
    return bool(waiting) and all(each.via.startswith(_HUMAN) for each in waiting)


@dataclass(frozen=True)
class Choices:
    """What both commands are told."""

    agents: list[str]
    store: str | None
    concurrency: int
    as_json: bool
    quiet: bool

    @property
    def again(self) -> str:
        """The options that a later `afl resume` needs as well."""
        words = [word for agent in self.agents for word in ("--agent", agent)]
        words += ["--store", self.store] if self.store else []
        return "".join(f" {shlex.quote(word)}" for word in words)

    def settings(self) -> Settings:
        """The settings with the store that is named; traces begin."""
        settings = load_settings({"store": self.store})
        start_tracing(settings.telemetry, "afl-run")
        return settings


@dataclass(frozen=True)
class Labels:
    """What a run is called and found by."""

    name: str = ""
    tags: Sequence[str] = ()


def start(
    chosen: Choices,
    prepared: Prepared,
    source: str | None,
    *,
    labels: Labels,
    budget_usd: float | None,
    budget_tokens: int | None,
) -> None:
    """Run a program; `source` is its text, for the line that an error names."""
    # What is wrong with them is told before there is a store.
    tags = read_tags(labels.tags)
    handlers = load_offer(chosen.agents).handlers
    check_handlers(handlers, prepared.program)
    for text in near_misses(handlers, prepared.program):
        say(text, "yellow")
    settings = chosen.settings()
    with ExitStack() as stack:
        opened = stack.enter_context(runs.opened(settings))
        offer = load_offer(chosen.agents, opened)
        bridges = stack.enter_context(hosted_for(opened, settings, offer, prepared.program))
        result = _watched(
            lambda display: runs.start(
                opened,
                prepared.program,
                prepared.inputs,
                handlers=offer.handlers,
                settings=settings,
                concurrency=chosen.concurrency,
                observer=display.progress,
                bridges=bridges,
                name=labels.name,
                tags=tags,
                budget_usd=budget_usd,
                budget_tokens=budget_tokens,
            ),
            chosen,
        )
        result = _Place(opened, offer, settings, bridges, chosen).with_people(result)
    _conclude(result, chosen, source)


def resume(chosen: Choices, run: str) -> None:
    """Go on with a run of the store."""
    settings = chosen.settings()
    with ExitStack() as stack:
        opened = stack.enter_context(runs.opened(settings, create=False))
        offer = load_offer(chosen.agents, opened)
        found = runs.find(opened, run)
        program = ProgramCache(opened).load(found.program_hash)
        bridges = stack.enter_context(hosted_for(opened, settings, offer, program))
        place = _Place(opened, offer, settings, bridges, chosen)
        result = place.with_people(place.resume(found.workflow_id))
    _conclude(result, chosen)


@dataclass(frozen=True)
class _Place:
    """Where a run goes on: what this process has for it."""

    store: PersistenceAPI
    offer: Offer
    settings: Settings
    bridges: BridgeService | None
    chosen: Choices

    def resume(self, run: str) -> RunReport:
        """Go on with a run until it ends, or until only others can."""
        return _watched(
            lambda display: runs.resume(
                self.store,
                run,
                handlers=self.offer.handlers,
                settings=self.settings,
                concurrency=self.chosen.concurrency,
                observer=display.progress,
                bridges=self.bridges,
            ),
            self.chosen,
        )

    def with_people(self, result: RunReport) -> RunReport:
        """A run that waits for people only goes on here, if they are at this terminal."""
        asks = not self.chosen.as_json and can_ask()
        while asks and waits_for_people(result) and self._ask_people(result.run):
            result = self.resume(result.run)
        return result

    def _ask_people(self, run: str) -> bool:
        from afl.cli.questions import ask_people  # noqa: PLC0415  most runs ask nobody

        return ask_people(self.store, run)


def _watched(work: Callable[[Display], RunReport], chosen: Choices) -> RunReport:
    display = display_for(quiet=chosen.quiet)

    def farewell() -> None:
        display.__exit__(None, None, None)
        started = display.progress.run
        say(
            f"Interrupted. Continue with: afl resume {started}{chosen.again}" if started else "Interrupted.",
            "yellow",
        )

    with leaving_on_interrupt(farewell), display, capturing():
        return work(display)


def _conclude(result: RunReport, chosen: Choices, source: str | None = None) -> None:
    if chosen.as_json:
        print_json(_envelope(result))
    elif result.status == ExecutionStatus.COMPLETED:
        print_json(result.outputs)
    elif result.status == ExecutionStatus.PAUSED:
        print_json(_paused(result))
    if result.status == ExecutionStatus.PAUSED:
        _say_paused(result, chosen.again)
    elif result.error is not None:
        hint = f"afl show {result.run} shows its steps"
        say(
            failure_text(
                result.run, result.workflow, result.error, source=source, hint=hint, attempts=result.attempts
            )
        )
        raise typer.Exit(1)
    elif not chosen.quiet:
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
        error = {name: value for name, value in asdict(result.error).items() if value}
        return base | {"error": error, "attempts": [asdict(each) for each in result.attempts]}
    return base | {"outputs": result.outputs}


def _waits(each: Waiting) -> str:
    """What some steps wait for, on a line."""
    steps = f" ({each.steps} steps)" if each.steps > 1 else ""
    kind, _, name = each.via.partition(":")
    if kind == "human":
        return f"{each.facet}{steps}: waiting for someone in {name}"
    if kind == "signal":
        return f"{each.facet}{steps}: waiting for the signal {name}"
    if each.via:
        return f"{each.facet}{steps} is for {each.via}" + (f": {each.why}" if each.why else "")
    near = (
        f"; there is one for {each.near}"
        if each.near
        else f'; mark a function with @handler("{each.facet}"), name the object whose method is marked (MODULE:NAME), '
        f'or map it to a model: {{"{each.facet}": model}}'
    )
    return f"no handler here for {each.facet}{steps}{near}"


def _say_paused(result: RunReport, again: str) -> None:
    if result.reason:
        text = Text.assemble(("Paused", "yellow"), f": run {result.run}, {result.reason}")
        say(text.append(f"\nContinue with: afl unpause {result.run}, then afl resume {result.run}{again}"))
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
    text.append(f"\nContinue with: afl resume {result.run}{options}")
    say(text)
