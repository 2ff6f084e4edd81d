"""`make bench`: all figures, or those whose name is given: `python -m bench engine`."""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path

from afl.devstack import temporary_stack
from bench import engine
from bench.raw import RawPostgres, RawSqlite
from bench.report import Report


def main() -> int:
    """Measure and print; exit code 1 if a bar is not met."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="afl-bench-", dir=".") as name, temporary_stack() as stack:
        folder = Path(name).resolve()
        numbers = itertools.count()
        postgres = stack.up(["postgres"])["postgres"]

        def fresh() -> str:
            return f"sqlite:///{folder}/bench-{next(numbers)}.db"

        sqlite_raw, postgres_raw = RawSqlite(folder), RawPostgres(postgres)
        engine.throughput(report, "SQLite", fresh(), sqlite_raw, plain=0.4, event=0.1)
        engine.throughput(report, "PostgreSQL", postgres, postgres_raw, plain=1.0, event=0.2)
        engine.latency(report, "SQLite", fresh(), sqlite_raw, plain=6, event=12)
        engine.latency(report, "PostgreSQL", postgres, postgres_raw, plain=5, event=12)
        engine.scaling(report, fresh)
        engine.resume(report, fresh)
        engine.memory(report, folder)
        engine.compiling(report)
    return 0 if report.show() else 1


if __name__ == "__main__":
    sys.exit(main())
