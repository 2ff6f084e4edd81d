"""From a file and inputs on the command line to a program that can be started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from afl.cli.console import say
from afl.language.compiler import Compiled
from afl.language.diagnostics import Diagnostic, render
from afl.operations.program.sources import SourceText, choose_workflow, examine, read_files
from afl.operations.program.submission import read_inputs
from afl.runtime.program.program import Program

_STYLES = {"error": "bold red", "warning": "bold yellow"}


def print_findings(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str]) -> None:
    """All findings, on standard error."""
    for each in diagnostics:
        say(finding(each, sources.get(each.source_id or "")))


def finding(diagnostic: Diagnostic, source: str | None) -> Text:
    """`Error: what at line L, column C`, then the place, the line with a caret, and a way out."""
    text = Text.assemble(
        (f"{diagnostic.severity.capitalize()}:", _STYLES[diagnostic.severity]), f" {diagnostic}"
    )
    for line in render(diagnostic, source).split("\n")[1:]:
        text.append("\n")
        if line.startswith("  --> "):
            text.append(f"{line} [{diagnostic.rule_id}]", "dim")
        elif set(line) <= set(" |^\t") and "^" in line:
            text.append(line, _STYLES[diagnostic.severity])
        else:
            text.append(line, "cyan" if line.startswith("  = ") else "")
    return text


@dataclass(frozen=True)
class Prepared:
    """A program and its inputs, checked against each other; `sources` are the texts by name, its own first."""

    program: Program
    inputs: dict[str, Any]
    sources: Mapping[str, str]

    @property
    def source(self) -> SourceText:
        """Its own text."""
        name, text = next(iter(self.sources.items()))
        return SourceText(text, name)

    @property
    def libraries(self) -> list[SourceText]:
        """The texts besides."""
        return [SourceText(text, name) for name, text in list(self.sources.items())[1:]]


def prepare(
    file: Path,
    workflow: str | None,
    inputs: Sequence[str] | None,
    inputs_file: Path | None,
    libraries: Sequence[Path] | None,
) -> Prepared:
    """Compile and check; mistakes are printed and end the command."""
    compiled, sources = compile_file(file, libraries or ())
    program = choose_workflow(compiled, workflow, source=str(file))
    return Prepared(program, read_inputs(program, inputs or (), inputs_file), sources)


def compile_file(file: Path, libraries: Sequence[Path] = ()) -> tuple[Compiled, Mapping[str, str]]:
    """The compiled file, and its sources by their names; mistakes are printed at their lines and end the command."""
    report = examine(read_files([file], libraries))
    print_findings(report.diagnostics, report.sources)
    if report.compiled is None:
        raise typer.Exit(1)
    return report.compiled, report.sources
