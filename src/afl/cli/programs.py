"""From a file and inputs on the command line to a program that can be started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from afl.cli.problems import print_findings
from afl.language.compiler import Compiled
from afl.operations.program.sources import SourceText, choose_workflow, examine, read_files
from afl.operations.program.submission import read_inputs
from afl.runtime.program.program import Program


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
    inputs_object: str | None,
    libraries: Sequence[Path] | None,
) -> Prepared:
    """Compile and check; mistakes are printed and end the command."""
    compiled, sources = compile_file(file, libraries or ())
    program = choose_workflow(compiled, workflow, source=str(file))
    return Prepared(program, read_inputs(program, inputs or (), inputs_object), sources)


def compile_file(file: Path, libraries: Sequence[Path] = ()) -> tuple[Compiled, Mapping[str, str]]:
    """The compiled file, and its sources by their names; mistakes are printed at their lines and end the command."""
    report = examine(read_files([file], libraries))
    print_findings(report.diagnostics, report.sources)
    if report.compiled is None:
        raise typer.Exit(1)
    return report.compiled, report.sources
