"""`afl diff`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from afl.cli.console import COLORS, Table, duration, output, shortened
from afl.cli.operation_command import operation_command
from afl.operations.run.compare import ComparedStep, ComparedValue, RunComparison, StepSide, compare_runs

_NOTHING = {"", '""', "0", "0.0"}
_FACTS: dict[str, tuple[str, Callable[[str], str]]] = {
    "duration_ms": ("duration", lambda text: duration(float(text))),
    "cost_usd": ("cost", lambda text: f"${float(text):.4f}"),
}
_SOURCE = {"+": "green", "-": "red", "@": "cyan"}


@operation_command(
    compare_runs,
    first="FIRST",
    second="SECOND",
    limit="--limit -n",
    examples="""
        afl diff 01jd9k                         compare with the run that it repeats
        afl diff 01jd3v 01jd9k                  compare two runs
        afl diff 01jd3v 01jd9k --json | jq .different
    """,
)
def diff(found: RunComparison) -> None:
    console = output()
    if found.is_same:
        console.print(Text("Program, inputs, steps and results are the same.", "green"))
    _print_values(
        console, "FACT", [_readable(each) for each in found.facts if {each.first, each.second} - _NOTHING]
    )
    _print_values(console, "INPUT", [each for each in found.inputs if each.differs])
    _print_values(console, "OUTPUT", [each for each in found.outputs if each.differs])
    for line in found.source:
        console.print(Text(line, _SOURCE.get(line[:1], "")))
    _print_steps(console, [each for each in found.steps if each.differs])
    console.print(Text(f"Steps: {found.different:,} differ, {found.same:,} are the same", "dim"))


def _readable(fact: ComparedValue) -> ComparedValue:
    """A fact as people read it rather than as JSON."""
    name, show = _FACTS.get(fact.name, (fact.name, json.loads))
    return ComparedValue(name, str(show(fact.first)), str(show(fact.second)), fact.differs)


def _print_values(console: Console, heading: str, values: Sequence[ComparedValue]) -> None:
    if not values:
        return
    table = Table(heading, "FIRST", "SECOND")
    names = max(len(heading), *(len(each.name) for each in values))
    width = min(60, max(20, (console.width - names - 4) // 2))
    for each in values:
        style = "yellow" if each.differs else "dim"
        first, second = (shortened(side, width) for side in (each.first, each.second))
        table.add(each.name, Text(first, style), Text(second, style))
    table.print(console)
    console.print()


def _print_steps(console: Console, steps: Sequence[ComparedStep]) -> None:
    if not steps:
        return
    table = Table("STEP", "FACET", "FIRST", "SECOND", "DIFFERENCE", below=["DIFFERENCE"])
    for each in steps:
        table.add(each.step, each.facet, _side(each.first), _side(each.second), _difference(each))
    table.print(console)


def _difference(step: ComparedStep) -> str:
    """What differs besides the state; long texts are cut."""
    parts = [(each.name, each.first, each.second) for each in step.values]
    first, second = (side.error if side is not None else "" for side in (step.first, step.second))
    if first or second:
        parts.append(("error", first or "none", second or "none"))
    return ", ".join(f"{name}: {shortened(a, 40)} → {shortened(b, 40)}" for name, a, b in parts)


def _side(side: StepSide | None) -> Text:
    if side is None:
        return Text("–", "dim")
    text = Text(side.state, COLORS.get(side.state, ""))
    return text.append(f" {duration(side.duration_ms)}", "dim")
