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
    for each in values:
        style = "yellow" if each.differs else "dim"
        table.add(each.name, Text(shortened(each.first), style), Text(shortened(each.second), style))
    table.print(console)
    console.print()


def _print_steps(console: Console, steps: Sequence[ComparedStep]) -> None:
    if not steps:
        return
    table = Table("STEP", "FACET", "FIRST", "SECOND", "DIFFERENCE", below=["DIFFERENCE"])
    for each in steps:
        values = ", ".join(
            f"{value.name}: {shortened(value.first, 40)} → {shortened(value.second, 40)}"
            for value in each.values
        )
        table.add(each.step, each.facet, _side(each.first), _side(each.second), values)
    table.print(console)


def _side(side: StepSide | None) -> Text:
    if side is None:
        return Text("–", "dim")
    text = Text(side.state, COLORS.get(side.state, ""))
    text.append(f" {duration(side.duration_ms)}", "dim")
    return text.append(f" {shortened(side.error)}", "red") if side.error else text
