"""`afl retry`, `afl cancel`, `afl pause` and `afl unpause`."""

from __future__ import annotations

from afl.cli.console import say
from afl.cli.operation_command import operation_command
from afl.operations.run import control
from afl.operations.run.control import Change, Retried


@operation_command(
    control.retry,
    name="RUN|STEP",
    examples="""
        afl retry 01jd3v                    every failed step of the run
        afl retry 01jd3v/fetch\\[3].parse     one of them
    """,
)
def retry(done: Retried) -> None:
    count = "1 step" if done.steps == 1 else f"{done.steps:,} steps"
    say(f"Retrying {count} of run {done.run}; the next server continues it (or: afl resume {done.run})")


def _refusal(done: Change) -> str:
    return "" if done.changed else f"{done.why}; nothing was changed"


def _tell(verb: str, done: Change) -> None:
    if done.changed:
        say(f"{verb} run {done.run} of {done.workflow}")


@operation_command(control.cancel, run="RUN", refusal=_refusal, examples="afl cancel 01jd3v")
def cancel(done: Change) -> None:
    _tell("Canceled", done)


@operation_command(control.pause, run="RUN", refusal=_refusal, examples="afl pause 01jd3v")
def pause(done: Change) -> None:
    _tell("Paused", done)


@operation_command(
    control.unpause,
    run="RUN",
    budget_usd="--budget-usd USD",
    budget_tokens="--budget-tokens N",
    refusal=_refusal,
    examples="""
        afl unpause 01jd3v
        afl unpause 01jd3v --budget-usd 5
    """,
)
def unpause(done: Change) -> None:
    _tell("Unpaused", done)
