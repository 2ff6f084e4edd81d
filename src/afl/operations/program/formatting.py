"""Sources in the standard form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from afl.language.diagnostics import CompileError
from afl.language.formatter import format_source
from afl.language.parser import ParseError
from afl.operations.program.sources import SourceError, read_file


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
