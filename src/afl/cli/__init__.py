"""The command line: `afl`. It renders what `afl.operations` returns; results go to stdout, all else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from afl import __version__
from afl.cli import collector
from afl.kernel.leaving import leave

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """The command `afl`; the exit code."""
    given = list(sys.argv[1:] if args is None else args)
    if given == ["--version"]:  # scripts ask often; the parser of options alone takes ten times as long
        print(f"afl {__version__}")
        return 0
    if args is None:  # we are the process
        collector.take_over()
    from afl.cli import app  # noqa: PLC0415  for the reason above

    code = app.main(given)
    if args is None:
        collector.keep_loaded()  # if it came to no command, as with --help
        leave(code)
    return code
