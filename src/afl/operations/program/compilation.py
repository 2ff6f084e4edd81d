"""From sources to findings and a compiled program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from afl.language.ast.declarations import Program as Ast
from afl.language.compiler import Compiled, compile_input
from afl.language.diagnostics import CompileError, Diagnostic
from afl.language.emitter import JSONEmitter
from afl.language.parser import AFLParser, ParseError
from afl.language.source import CompilerInput, SourceRegistry
from afl.operations.program.sources import shown_name


@dataclass(frozen=True)
class Report:
    """What the compiler found. `ast` is there when the sources could be parsed."""

    sources: Mapping[str, str]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    ast: Ast | None = None
    compiled: Compiled | None = None

    @property
    def errors(self) -> list[Diagnostic]:
        """What keeps the program from running."""
        return [each for each in self.diagnostics if each.severity == "error"]

    @property
    def is_valid(self) -> bool:
        """Whether the program is fit to run (or, without validation, could be parsed)."""
        return not self.errors


def examine(source: CompilerInput, *, validate: bool = True) -> Report:
    """Everything the compiler has to say; never raises for what is wrong with a program."""
    texts = {shown_name(entry.source_id): entry.text for entry in source.all_sources}
    try:
        if not validate:
            ast, _ = AFLParser().parse_sources(source)
            return Report(texts, ast=ast)
        compiled = compile_input(source)
    except (CompileError, ParseError) as error:
        return Report(texts, [_shown(each) for each in error.diagnostics])
    return Report(texts, [_shown(each) for each in compiled.diagnostics], compiled.ast, compiled)


def compile_sources(source: CompilerInput) -> Compiled:
    """The compiled program; CompileError shows each problem with its line and a caret."""
    report = examine(source)
    if report.compiled is None:
        raise CompileError(report.diagnostics, report.sources)
    return report.compiled


def emit(
    ast: Ast,
    source: CompilerInput,
    *,
    locations: bool = True,
    provenance: bool = False,
    compact: bool = False,
) -> str:
    """The compiled program as JSON text."""
    emitter = JSONEmitter(
        include_locations=locations,
        include_provenance=provenance,
        source_registry=SourceRegistry.from_compiler_input(source),
        indent=None if compact else 2,
    )
    return emitter.emit(ast)


def _shown(diagnostic: Diagnostic) -> Diagnostic:
    return replace(diagnostic, source_id=shown_name(diagnostic.source_id))
