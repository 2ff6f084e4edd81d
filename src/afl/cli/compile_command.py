"""`afl check`, `afl compile` and `afl fmt`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from afl.cli import options
from afl.cli.console import print_json, say
from afl.cli.problems import print_findings
from afl.config import load_config
from afl.kernel.config_file import require_file
from afl.kernel.errors import InputError
from afl.kernel.log import configure_logging
from afl.language.source import CompilerInput, SourceEntry, SourceLoader
from afl.operations import serialization
from afl.operations.program.sources import (
    STDIN,
    Report,
    emit,
    examine,
    format_file,
    format_text,
    from_text,
    read_file,
    read_files,
    write,
)


class LogLevel(StrEnum):
    """What --log-level takes."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


def compile_(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="One source file; standard input if none.")
    ] = None,
    primary: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A main source. Repeatable.")
    ] = None,
    library: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A library. Repeatable.")] = None,
    mongo: Annotated[list[str] | None, typer.Option(metavar="ID:NAME", help="Not implemented yet.")] = None,
    maven: Annotated[list[str] | None, typer.Option(metavar="G:A:V[:C]", help="Not implemented yet.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write. Default: standard output."),
    ] = None,
    no_locations: Annotated[
        bool, typer.Option("--no-locations", help="Leave out lines and columns.")
    ] = False,
    include_provenance: Annotated[
        bool, typer.Option("--include-provenance", help="Name the source of every location.")
    ] = False,
    compact: Annotated[bool, typer.Option("--compact", help="All on one line.")] = False,
    no_validate: Annotated[
        bool, typer.Option("--no-validate", help="Parse only; do not look for mistakes.")
    ] = False,
    check_only: Annotated[bool, typer.Option("--check", help="Look for mistakes and write nothing.")] = False,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A configuration file.")] = None,
    log_level: Annotated[LogLevel, typer.Option(help="The lowest level to log.")] = LogLevel.WARNING,
    log_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to log. Default: standard error.")
    ] = None,
) -> None:
    """Compile sources to the JSON that the runtime executes. `afl FILE` does the same.

    [bold]Examples[/bold]

      afl news.afl > news.json
      afl compile --primary news.afl --library common.afl -o news.json
      cat news.afl | afl --check
    """
    with _logging(log_level, log_file):
        load_config(require_file(config))
        sources = _sources(file, primary or [], library or [], mongo or [], maven or [])
        report = examine(sources, validate=not no_validate)
        _require_valid(report)
        if check_only:
            _say_ok(report)
            return
        assert report.ast is not None
        text = emit(
            report.ast, sources, locations=not no_locations, provenance=include_provenance, compact=compact
        )
        _write(text, out)


def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Sources; together they are one program.")
    ],
    as_json: options.AsJson = False,
) -> None:
    """Check sources and report every error, with its line and a hint. Exit code 1 if there are any.

    [bold]Examples[/bold]

      afl check news.afl
      afl check news.afl common.afl
      afl check news.afl --json | jq '.findings\\[].message'
    """
    report = examine(read_files(files))
    if as_json:
        print_json(_plain(report))
        if not report.is_valid:
            raise typer.Exit(1)
        return
    _require_valid(report)
    _say_ok(report)


def _plain(report: Report) -> dict[str, Any]:
    """The report as `POST /api/v1/compile` has it."""
    findings = [serialization.plain(each) for each in report.diagnostics]
    return {"valid": report.is_valid, "sources": list(report.sources), "findings": findings}


def _require_valid(report: Report) -> None:
    print_findings(report.diagnostics, report.sources)
    if not report.is_valid:
        raise typer.Exit(1)


def _say_ok(report: Report) -> None:
    say(f"OK: {len(report.sources)} source(s) parsed successfully")


def _sources(
    file: Path | None, primary: list[Path], library: list[Path], mongo: list[str], maven: list[str]
) -> CompilerInput:
    if not (primary or library or mongo or maven):
        return read_files([file]) if file is not None else from_text(_standard_input())
    if file is not None:
        raise InputError(
            "Cannot use positional input with --primary/--library/--mongo/--maven. "
            "Use --primary for the main source file."
        )
    libraries = [read_file(path, is_library=True) for path in library]
    libraries += [_from_mongodb(spec) for spec in mongo] + [_from_maven(spec) for spec in maven]
    return CompilerInput([read_file(path) for path in primary], libraries)


def _standard_input() -> str:
    try:
        return sys.stdin.read().removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")  # a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"standard input cannot be read: {error}") from error


def _from_mongodb(spec: str) -> SourceEntry:
    collection, separator, name = spec.partition(":")
    if not (collection and separator and name):
        raise InputError(f"Invalid MongoDB spec '{spec}'. Expected format: ID:display_name")
    return SourceLoader.load_mongodb(collection, name)


def _from_maven(spec: str) -> SourceEntry:
    parts = spec.split(":")
    if len(parts) not in (3, 4) or not all(parts):
        raise InputError(f"Invalid Maven spec '{spec}'. Expected format: group:artifact:version[:classifier]")
    group, artifact, version, *classifier = parts
    return SourceLoader.load_maven(group, artifact, version, classifier="".join(classifier))


def _write(text: str, out: Path | None) -> None:
    try:
        if out is not None:
            out.write_text(f"{text}\n", encoding="utf-8")
        else:
            sys.stdout.write(f"{text}\n")
    except OSError as error:
        raise InputError(f"the output cannot be written: {error}") from error


@contextmanager
def _logging(level: LogLevel, file: Path | None) -> Iterator[None]:
    """Log as asked while the command works; `main` may be called by a program with logging of its own."""
    logger = logging.getLogger("afl")
    before = logger.handlers[:], logger.level, logger.propagate
    with _log_stream(file) as stream:
        configure_logging(level, stream=stream)
        try:
            yield
        finally:
            logger.handlers[:], logger.level, logger.propagate = before


def _log_stream(file: Path | None) -> AbstractContextManager[TextIO | None]:
    try:
        return nullcontext(None) if file is None else file.open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(f"the log file {file} cannot be written: {error.strerror}") from error


def fmt(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Sources; standard input if none, or for -."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would change.")
    ] = False,
) -> None:
    """Format sources. Comments stay, meaning does not change.

    [bold]Examples[/bold]

      afl fmt news.afl
      afl fmt --check *.afl
      afl fmt < news.afl
    """
    named = [path for path in files or [] if str(path) != "-"]
    changed = [each for each in map(format_file, named) if each.changed]
    for each in changed:
        if not check:
            write(each)
        say(f"{'Would reformat' if check else 'Reformatted'} {each.name}")
    piped = len(named) != len(files or []) or not files
    if piped:
        given = format_text(_standard_input(), STDIN)
        if check:
            changed += [given] if given.changed else []
        else:
            sys.stdout.write(given.after)
    if check and changed:
        say(f"{len(changed)} source(s) are not in the standard form; `afl fmt` rewrites them")
        raise typer.Exit(1)
