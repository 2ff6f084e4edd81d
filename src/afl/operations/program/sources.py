"""Sources of workflows: read, compile, format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from afl.kernel.errors import InputError
from afl.language.ast.declarations import Program as Ast
from afl.language.compiler import Compiled, compile_input
from afl.language.diagnostics import CompileError, Diagnostic
from afl.language.emitter import JSONEmitter
from afl.language.formatter import format_source
from afl.language.parser import AFLParser, ParseError
from afl.language.source import CompilerInput, FileOrigin, SourceEntry, SourceLoader, SourceRegistry
from afl.operations.parameters import Source, SourceName
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.declaration import Declaration, Field
from afl.runtime.program.program import Program
from afl.runtime.program.values import type_text

STDIN = "<stdin>"
_FILE_ID = "file://"


class SourceError(InputError, hint="Correct the path, or the encoding of the file."):
    """A source cannot be read."""


def read_file(path: str | Path, *, is_library: bool = False) -> SourceEntry:
    """The source in a file; SourceError says why it cannot be read."""
    try:
        return SourceLoader.load_file(path, is_library)
    except FileNotFoundError as error:
        raise SourceError(f"File not found: {path}") from error
    except IsADirectoryError as error:
        raise SourceError(f"{path} is a directory; name a file in it") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error


def read_files(paths: Iterable[str | Path], libraries: Iterable[str | Path] = ()) -> CompilerInput:
    """The sources in files, as one program."""
    return CompilerInput(
        [read_file(path) for path in paths],
        [read_file(path, is_library=True) for path in libraries],
    )


def from_text(text: str, name: str = STDIN) -> CompilerInput:
    """A text as the only source."""
    return CompilerInput([SourceEntry(text, FileOrigin(name))])


def shown_name(source_id: str | None) -> str:
    """A source's id as people know it: files by their path."""
    return (source_id or "").removeprefix(_FILE_ID)


@dataclass(frozen=True)
class SignatureField:
    """A parameter or a return of a workflow; one that is not required has a default."""

    name: str
    type: str
    required: bool = True
    about: str = ""


@dataclass(frozen=True)
class WorkflowSignature:
    """A workflow: its full name, its doc comment, its parameters and returns."""

    name: str
    about: str = ""
    parameters: list[SignatureField] = field(default_factory=list)
    returns: list[SignatureField] = field(default_factory=list)


def signatures(program: Program) -> list[WorkflowSignature]:
    """Every workflow of a program."""
    return [signature(program.declarations[name]) for name in program.workflows()]


def signature(workflow: Declaration) -> WorkflowSignature:
    """One of them."""
    doc: Mapping[str, Any] = workflow.ast.get("doc") or {}
    return WorkflowSignature(
        workflow.name,
        str(doc.get("description") or ""),
        _fields(workflow.params, doc.get("params")),
        _fields(workflow.returns or (), doc.get("returns")),
    )


def _fields(fields: Iterable[Field], doc: Iterable[Mapping[str, Any]] | None) -> list[SignatureField]:
    about = {each["name"]: str(each["description"]) for each in doc or ()}
    return [
        SignatureField(each.name, type_text(each.type), each.default is None, about.get(each.name, ""))
        for each in fields
    ]


_LONGEST_SOURCE = 256 * 1024


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


def choose_workflow(compiled: Compiled, name: str | None = None, *, source: str = "") -> Program:
    """The program with the named workflow as its entry, or with its only one."""
    shown = source or next((shown_name(each) for each in compiled.sources), "")
    known = Program({"program": compiled.program}).workflows()
    if name is None and len(known) != 1:
        if not known:
            raise InputError(f"{shown} declares no workflow; there is nothing to run")
        raise InputError(
            f"{shown} declares several workflows: {', '.join(known)}; name the one to run, after the file"
        )
    # The compiled program does not say which of several sources a line is in; naming one might name the wrong one.
    place = {"source": shown, **_text(compiled)} if len(compiled.sources) == 1 else {}
    try:
        return Program({"program": compiled.program, "workflow": name or known[0], **place})
    except InputError as error:
        raise InputError(f"{shown}: {error}") from error


def _text(compiled: Compiled) -> dict[str, str]:
    """The source itself, kept with the program so that people can be shown the line that an error names."""
    text = next(iter(compiled.sources.values()))
    return {"text": text} if len(text) <= _LONGEST_SOURCE else {}


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


UNNAMED = "<source>"


@dataclass(frozen=True)
class SourceText:
    """A library: its text, and the name that messages show."""

    text: str
    name: SourceName = "<library>"


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
    return _program_of(source, workflow, name, tuple(libraries))


@lru_cache(maxsize=32)  # who starts one workflow often sends the same text
def _program_of(source: str, workflow: str, name: str, libraries: tuple[SourceText, ...]) -> Program:
    compiled = compile_sources(_input(source, name, libraries))
    return choose_workflow(compiled, workflow or None, source=name or UNNAMED)


def _input(source: str, name: str, libraries: Sequence[SourceText]) -> CompilerInput:
    return CompilerInput(
        [SourceEntry(source, FileOrigin(name or UNNAMED))],
        [SourceEntry(each.text, FileOrigin(each.name), is_library=True) for each in libraries],
    )


@dataclass(frozen=True)
class Formatted:
    """A source and its standard form."""

    name: str
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """Whether it was not in the standard form."""
        return self.before != self.after


def format_text(text: str, name: str) -> Formatted:
    """The standard form of a text; CompileError when it is no AFL."""
    try:
        return Formatted(name, text, format_source(text, name))
    except ParseError as error:
        raise CompileError(
            [replace(each, source_id=name) for each in error.diagnostics], {name: text}
        ) from error


def format_file(path: str | Path) -> Formatted:
    """The standard form of a file; nothing is written."""
    return format_text(read_file(path).text, str(path))


def write(formatted: Formatted) -> None:
    """Put the standard form into the file it came from."""
    try:
        Path(formatted.name).write_text(formatted.after, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"{formatted.name} cannot be written: {error.strerror}") from error
