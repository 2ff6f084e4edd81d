"""Source text to compiled program in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from afl.language.ast.declarations import Program
from afl.language.diagnostics import CompileError, Diagnostic
from afl.language.emitter import JSONEmitter
from afl.language.names import Names
from afl.language.parser import AFLParser, ParseError
from afl.language.source import CompilerInput
from afl.language.validator import AFLValidator


@dataclass(frozen=True)
class Compiled:
    """A program that is fit to run. `diagnostics` are its warnings."""

    program: dict[str, Any]
    ast: Program
    names: Names
    diagnostics: list[Diagnostic] = field(default_factory=list)
    sources: Mapping[str, str] = field(default_factory=dict)


def compile_source(text: str, *, name: str = "<string>") -> Compiled:
    """Parse, validate and emit one text; CompileError shows everything that is wrong with it."""
    return _compile({name: text})


def compile_input(compiler_input: CompilerInput) -> Compiled:
    """The same for several sources as one program."""
    return _compile({entry.source_id: entry.text for entry in compiler_input.all_sources})


def _compile(sources: Mapping[str, str]) -> Compiled:
    program = _parse(sources)
    names = Names(program)
    result = AFLValidator().validate(program, names)
    if not result.is_valid:
        raise CompileError(result.errors + result.warnings, sources)
    return Compiled(JSONEmitter().emit_program(program, names), program, names, result.warnings, sources)


def _parse(sources: Mapping[str, str]) -> Program:
    """All sources as one program. Syntax errors end it: with half the names missing, no check makes sense."""
    programs: list[Program] = []
    problems: list[Diagnostic] = []
    for source_id, text in sources.items():
        try:
            programs.append(AFLParser().parse(text, source_id=source_id))
        except ParseError as error:
            problems += error.diagnostics
    if problems:
        raise CompileError(problems, sources)
    return programs[0] if len(programs) == 1 else Program.merge(programs)
