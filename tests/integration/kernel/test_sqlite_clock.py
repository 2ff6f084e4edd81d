"""The store's clock goes on when the machine starts again, and never follows a changed wall clock."""

from __future__ import annotations

import pytest

from afl.kernel.database import connect, sqlite_file


class Machine:
    """A machine whose clocks the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boot, self.steady, self.wall = "first", 5_000, 1_000_000
        monkeypatch.setattr(sqlite_file, "boot_id", lambda: self.boot)
        monkeypatch.setattr(sqlite_file, "steady_ms", lambda: self.steady)
        monkeypatch.setattr(sqlite_file, "wall_ms", lambda: self.wall)

    def now(self, url: str) -> int:
        with connect(url) as database:
            return self.steady + database._file.shift  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_within_a_boot_only_the_steady_clock_counts(machine: Machine, sqlite_url: str) -> None:
    assert machine.now(sqlite_url) == 1_000_000
    machine.steady += 70_000
    machine.wall = 3
    assert machine.now(sqlite_url) == 1_070_000


def test_after_a_boot_it_goes_on(machine: Machine, sqlite_url: str) -> None:
    machine.steady = 900_000
    assert machine.now(sqlite_url) == 1_000_000
    machine.boot, machine.steady, machine.wall = "second", 10, 1_400_000
    assert machine.now(sqlite_url) == 1_400_000
    machine.steady += 500
    assert machine.now(sqlite_url) == 1_400_500


def test_after_a_boot_with_a_dead_battery_it_does_not_go_back(machine: Machine, sqlite_url: str) -> None:
    assert machine.now(sqlite_url) == 1_000_000
    machine.steady += 100_000
    assert machine.now(sqlite_url) == 1_100_000
    machine.boot, machine.steady, machine.wall = "second", 10, 0
    assert machine.now(sqlite_url) == 1_100_000
