"""Where a run's time goes: the slowest tests, and the time of each directory and each fixture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from time import perf_counter
from typing import Any

import pytest

_SHOWN = 20


@dataclass(eq=False)
class FixtureTimes:
    """Seconds that each fixture takes in this process: its set-up without that of others, and its teardown."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _nested: list[float] = field(default_factory=list)
    _mark: float = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        begun = perf_counter()
        self._nested.append(0.0)
        try:
            return (yield)
        finally:
            took = perf_counter() - begun
            self.seconds[fixturedef.argname] += took - self._nested.pop()
            if self._nested:
                self._nested[-1] += took

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        self._mark = perf_counter()

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Finalizers run one after another: what passed since the last one is this one's."""
        now = perf_counter()
        if self._mark:
            self.seconds[fixturedef.argname] += now - self._mark
        self._mark = now

    def add(self, seconds: dict[str, float]) -> None:
        """Those of another process, too."""
        for name, value in seconds.items():
            self.seconds[name] += value


@dataclass(eq=False)
class RunTimes:
    """Collects the times of all worker processes and prints them at the end."""

    fixtures: FixtureTimes
    tests: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.tests) < _SHOWN:
            return
        by_directory: dict[str, float] = defaultdict(float)
        counts: dict[str, int] = defaultdict(int)
        for name, seconds in self.tests.items():
            directory = "/".join(PurePosixPath(name.partition("::")[0]).parent.parts[1:3]) or "."
            by_directory[directory] += seconds
            counts[directory] += 1
        write = terminalreporter.write_line
        terminalreporter.section("times of the run, in seconds of a worker process")
        write("slowest tests")
        _table(write, _largest(self.tests))
        write("directories")
        _table(write, ((s, f"{name} ({counts[name]} tests)") for s, name in _largest(by_directory)))
        write("fixtures")
        _table(write, _largest(self.fixtures.seconds))


def _largest(seconds: dict[str, float]) -> list[tuple[float, str]]:
    return sorted(((value, name) for name, value in seconds.items()), reverse=True)[:_SHOWN]


def _table(write: Any, rows: Iterable[tuple[float, str]]) -> None:
    for seconds, name in rows:
        write(f"  {seconds:8.1f}  {name}")
