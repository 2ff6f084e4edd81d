"""What a short command costs before its own work: processor time, as a multiple of a bare interpreter's start."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

from bench.place import Place
from bench.report import Report

REPEATS = 7
BAR = 10
HELLO = ("examples/hello/hello.afl", "--agent", "examples/hello/agents.py", "--input", "name=Ada")


def measure(report: Report, place: Place) -> None:
    """The least of several starts: what else the machine does only adds to it."""
    store = ("--store", place.sqlite())
    bare = processor_seconds("-c", "pass")
    commands = {
        "afl --help": ("--help",),
        "afl list": ("list", *store),
        "afl why": ("why", *store),
        "afl run": ("run", *HELLO, *store),
    }
    processor_seconds("-m", "afl", *commands["afl run"])  # so that there is something to list and to explain
    for name, command in commands.items():
        spent = processor_seconds("-m", "afl", *command)
        detail = f"{spent * 1e3:.0f} ms; bare interpreter {bare * 1e3:.0f} ms"
        report.add(f"{name}: processor time / bare interpreter", spent / bare, "at_most", BAR, detail)


def processor_seconds(*args: str) -> float:
    """Of one process and its children, compiled sources allowed."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return min(_spent(args, environ) for _ in range(REPEATS))


def _spent(args: tuple[str, ...], environ: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *args], env=environ, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
