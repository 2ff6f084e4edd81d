"""`make bench`: all figures, or those whose name is given: `python -m bench engine`."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from afl.devstack import temporary_stack
from bench import agents, engine
from bench.raw import RawPostgres, RawSqlite
from bench.report import Report

PARTS = ("engine", "agents")


def main(chosen: list[str]) -> int:
    """Measure and print; exit code 1 if a bar is not met."""
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        raise SystemExit(f"there is no part {unknown[0]!r}; known are {', '.join(PARTS)}")
    report = Report()
    with tempfile.TemporaryDirectory(prefix="afl-bench-", dir=".") as name, temporary_stack() as stack:
        folder = Path(name).resolve()
        numbers = itertools.count()

        def fresh() -> str:
            return f"sqlite:///{folder}/bench-{next(numbers)}.db"

        if "engine" in chosen or not chosen:
            measure_engine(report, folder, fresh, stack.up(["postgres"])["postgres"])
        if "agents" in chosen or not chosen:
            measure_agents(report, folder, fresh, stack.up(["postgres", "nats", "mongo"]))
    return 0 if report.show() else 1


def measure_engine(report: Report, folder: Path, fresh: Callable[[], str], postgres: str) -> None:
    """The engine's part."""
    sqlite_raw, postgres_raw = RawSqlite(folder), RawPostgres(postgres)
    engine.throughput(report, "SQLite", fresh(), sqlite_raw, plain=0.4, event=0.1)
    engine.throughput(report, "PostgreSQL", postgres, postgres_raw, plain=1.0, event=0.2)
    engine.latency(report, "SQLite", fresh(), sqlite_raw, plain=6, event=12)
    engine.latency(report, "PostgreSQL", postgres, postgres_raw, plain=5, event=12)
    engine.scaling(report, fresh)
    engine.resume(report, fresh)
    engine.memory(report, folder)
    engine.compiling(report)


def measure_agents(report: Report, folder: Path, fresh: Callable[[], str], urls: dict[str, str]) -> None:
    """The agents' part."""
    postgres, nats, mongo = urls["postgres"], urls["nats"], urls["mongo"]
    agents.drain(report, "SQLite", fresh(), agents.raw_sqlite_loop(folder), bar=0.5)
    agents.drain(report, "PostgreSQL", postgres, agents.raw_postgres_loop(postgres), bar=2)
    agents.resumes(report, fresh())
    agents.wakeups(report, "SQLite", fresh())
    agents.wakeups(report, "PostgreSQL", postgres)
    agents.wakeups(report, "PostgreSQL and NATS", postgres, nats)
    agents.silenced(report, "PostgreSQL", postgres)
    agents.idling(report, "SQLite", fresh())
    agents.idling(report, "PostgreSQL", postgres)
    agents.takeover(report, "SQLite", fresh(), bar=2, kills=10)
    agents.takeover(report, "PostgreSQL", postgres, bar=2, kills=10)
    agents.takeover(report, "MongoDB", mongo, bar=12, kills=2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
