"""`afl fmt`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from afl.cli.console import say
from afl.operations.program.formatting import format_file, format_text, write
from afl.operations.program.sources import STDIN


def fmt(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Sources; standard input if none, or for -."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if something would.")
    ] = False,
) -> None:
    """Rewrite sources in the standard form. Comments stay, meaning does not change.

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
        given = format_text(sys.stdin.read(), STDIN)
        if check:
            changed += [given] if given.changed else []
        else:
            sys.stdout.write(given.after)
    if check and changed:
        say(f"{len(changed)} source(s) are not in the standard form; `afl fmt` rewrites them")
        raise typer.Exit(1)
