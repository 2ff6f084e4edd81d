"""Sources to compile: files, standard input, texts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from afl.kernel.errors import InputError
from afl.language.source import CompilerInput, FileOrigin, SourceEntry, SourceLoader

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
