"""Source text to AST."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import cast

from lark.exceptions import UnexpectedInput

from afl.kernel.errors import InputError
from afl.language.ast.declarations import Program
from afl.language.builder import ProgramBuilder
from afl.language.diagnostics import Diagnostic, render
from afl.language.grammar import open_grammar
from afl.language.recovery import NestingLimit, TooDeep, all_syntax_errors
from afl.language.source import CompilerInput, SourceRegistry


class ParseError(
    InputError, hint="Correct the lines named in the text; `afl check FILE` shows each with a caret."
):
    """A text is not valid AFL. `line`, `column` and `message` describe the first problem, `diagnostics` all of them."""

    def __init__(
        self, message: str, line: int | None = None, column: int | None = None, source_id: str | None = None
    ) -> None:
        self.message = message
        self.line = line
        self.column = column
        self.source_id = source_id
        self.source: str | None = None
        self.diagnostics = [Diagnostic(message, line, column, "SYNTAX", source_id=source_id)]
        super().__init__(message)

    @classmethod
    def of(cls, diagnostics: Sequence[Diagnostic], source: str | None = None) -> ParseError:
        """One error for all problems of a text."""
        head = diagnostics[0]
        error = cls(head.message, head.line, head.column, head.source_id)
        error.diagnostics = list(diagnostics)
        error.source = source
        return error

    def __str__(self) -> str:
        return "\n".join(_one_line(diagnostic) for diagnostic in self.diagnostics)

    def render(self) -> str:
        """Every problem with its source line and a caret."""
        return "\n\n".join(render(diagnostic, self.source) for diagnostic in self.diagnostics)


def _one_line(diagnostic: Diagnostic) -> str:
    return f"[{diagnostic.source_id}] {diagnostic}" if diagnostic.source_id else str(diagnostic)


class _Machine:
    """The LALR tables with their builder. One parse at a time: the builder holds its state."""

    def __init__(self) -> None:
        self._builder = ProgramBuilder()
        self._turn = Lock()
        self._lark = open_grammar(transformer=self._builder, postlex=NestingLimit())

    def parse(self, text: str, source_id: str) -> tuple[Program | None, list[Diagnostic]]:
        """The program, or what is wrong with the text."""
        with self._turn:
            self._builder.begin(source_id)
            try:
                program = cast(Program, self._lark.parse(text))
                problems: list[Diagnostic] = []
            except UnexpectedInput as error:
                program, problems = None, all_syntax_errors(error, text, source_id)
            except TooDeep as error:
                program, problems = None, [error.diagnostic(source_id)]
            problems += self._builder.problems
            return program, sorted(problems, key=lambda one: (one.line or 0, one.column or 0))


@cache
def _machine() -> _Machine:
    """Opened on first use."""
    return _Machine()


class AFLParser:
    """Parses texts, files and sets of sources."""

    def parse(self, source: str, filename: str = "<string>", source_id: str | None = None) -> Program:
        """The AST of a text; ParseError lists all its syntax errors."""
        program, problems = _machine().parse(source, source_id or filename)
        if problems or program is None:
            raise ParseError.of(problems, source)
        return program

    def parse_file(self, path: str | Path) -> Program:
        text = Path(path).read_text(encoding="utf-8")
        return self.parse(text, filename=str(path), source_id=f"file://{path}")

    def parse_sources(self, compiler_input: CompilerInput) -> tuple[Program, SourceRegistry]:
        """All sources as one program."""
        programs = [self.parse(entry.text, source_id=entry.source_id) for entry in compiler_input.all_sources]
        return Program.merge(programs), SourceRegistry.from_compiler_input(compiler_input)


def parse(source: str, filename: str = "<string>") -> Program:
    """The AST of a text; ParseError lists all its syntax errors."""
    return AFLParser().parse(source, filename)
