"""A line of the table: what was measured, the figure, the bar."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Line:
    """One figure. `at_least` bars are met by more, `at_most` bars by less."""

    name: str
    value: float
    kind: Literal["at_least", "at_most"]
    bar: float
    detail: str = ""

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.value >= self.bar if self.kind == "at_least" else self.value <= self.bar


@dataclass
class Report:
    """The lines so far, printed as a table at the end."""

    console: Console = field(default_factory=lambda: Console(width=120))
    lines: list[Line] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    def add(
        self, name: str, value: float, kind: Literal["at_least", "at_most"], bar: float, detail: str = ""
    ) -> None:
        """Add a line and say so at once: some figures take a while."""
        line = Line(name, value, kind, bar, detail)
        self.lines.append(line)
        self.console.print(f"[dim]{name}: {value:.3g}  {detail}[/dim]")

    def note(self, name: str, detail: str) -> None:
        """A figure without a bar."""
        self.notes.append((name, detail))
        self.console.print(f"[dim]{name}: {detail}[/dim]")

    def show(self) -> bool:
        """Print the table; True if every bar is met."""
        table = Table("figure", "value", "bar", "met", "detail", title="AgentFlow bench")
        for line in self.lines:
            sign = "≥" if line.kind == "at_least" else "≤"
            met = "[green]yes[/green]" if line.met else "[red]NO[/red]"
            table.add_row(line.name, f"{line.value:.3g}", f"{sign} {line.bar:g}", met, line.detail)
        for name, detail in self.notes:
            table.add_row(name, "", "", "", detail)
        self.console.print(table)
        return all(line.met for line in self.lines)


def seconds(work: Callable[[], object]) -> float:
    """How long the work took."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def median_of_rounds(rounds: int, one: Callable[[], float]) -> float:
    """The median over rounds; each round measures both sides of a ratio, so that noise hits both."""
    return statistics.median(one() for _ in range(rounds))
