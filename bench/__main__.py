"""`make bench`: all figures, or those whose name is given: `python -m bench engine`."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

from afl.devstack import temporary_stack
from bench.place import Place
from bench.report import Report

PARTS = (
    "engine",
    "agents",
    "concurrency",
    "primitives",
    "client",
    "coordination",
    "fleet",
    "turns",
    "dashboard",
    "hostile",
    "startup",
)  # each a module here with `measure(report, place)`


def main(chosen: list[str]) -> int:
    """Measure and print; exit code 1 if a bar is not met."""
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        raise SystemExit(f"there is no part {unknown[0]!r}; known are {', '.join(PARTS)}")
    report = Report()
    with tempfile.TemporaryDirectory(prefix="afl-bench-", dir=".") as name, temporary_stack() as stack:
        place = Place(Path(name).resolve(), stack)
        for part in chosen or PARTS:
            importlib.import_module(f"bench.{part}").measure(report, place)
    return 0 if report.show() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
