"""Sources that came as text, from wherever: compiled to a program, or to findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.language.diagnostics import Diagnostic
from afl.language.source import CompilerInput, FileOrigin, SourceEntry
from afl.operations.parameters import Source
from afl.operations.program.compilation import compile_sources, examine
from afl.operations.program.workflow_signature import WorkflowSignature, signatures
from afl.operations.run.runs import choose_workflow
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program

UNNAMED = "<source>"


@dataclass(frozen=True)
class SourceText:
    """A library: its text, and the name that messages show."""

    text: str
    name: str = "<library>"


@dataclass(frozen=True)
class Compilation:
    """What the compiler found. `workflows` and `program` are there when the source is fit to run."""

    valid: bool
    findings: list[Diagnostic]
    workflows: list[WorkflowSignature] = field(default_factory=list)
    program: dict[str, Any] | None = None


def compile_source(
    store: PersistenceAPI,
    source: Source,
    *,
    name: str = "",
    libraries: Sequence[SourceText] = (),
    with_program: bool = False,
) -> Compilation:
    """Look for mistakes in a source; nothing is stored. `with_program` adds the compiled program."""
    report = examine(_input(source, name, libraries))
    if report.compiled is None:
        return Compilation(False, report.diagnostics)
    found = signatures(Program({"program": report.compiled.program}))
    return Compilation(True, report.diagnostics, found, report.compiled.program if with_program else None)


def program_of(
    source: str, workflow: str = "", *, name: str = "", libraries: Sequence[SourceText] = ()
) -> Program:
    """The program with the named workflow as its entry, or with its only one; CompileError shows mistakes."""
    compiled = compile_sources(_input(source, name, libraries))
    return choose_workflow(compiled, workflow or None, source=name or UNNAMED)


def _input(source: str, name: str, libraries: Sequence[SourceText]) -> CompilerInput:
    return CompilerInput(
        [SourceEntry(source, FileOrigin(name or UNNAMED))],
        [SourceEntry(each.text, FileOrigin(each.name), is_library=True) for each in libraries],
    )
