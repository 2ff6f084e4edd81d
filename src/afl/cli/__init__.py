"""The command line: `afl`. It renders what `afl.operations` returns; results go to stdout, all else to stderr."""

from afl.cli.app import main

__all__ = ["main"]
