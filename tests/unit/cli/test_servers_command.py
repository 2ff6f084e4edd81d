"""`afl up`, `afl down`, `afl status`: what they ask of the local stack, and what they print."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.command_line import Afl

from afl import devstack as servers
from afl.kernel.errors import ServerError


class Recorded:
    """Stands in for the stack, which has tests of its own with real servers."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def up(self, folder: Path, services: Iterable[str]) -> dict[str, str]:
        names = list(services)
        self.asked.append(names)
        return {name: f"{name}://127.0.0.1:1" for name in names}

    def down(self, folder: Path, *, remove: bool) -> list[str]:
        self.asked.append(remove)
        return ["postgres"] if remove else []


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    recorded = Recorded()
    monkeypatch.setattr(servers, "up", recorded.up)
    monkeypatch.setattr(servers, "down", recorded.down)
    return recorded


def test_up_starts_all_three_unless_some_are_named(afl: Afl, stack: Recorded) -> None:
    assert afl("up").code == 0
    done = afl("up", "--postgres", "--nats")
    assert stack.asked == [["postgres", "redis", "nats"], ["postgres", "nats"]]
    assert done.out == "postgres\tpostgres://127.0.0.1:1\nnats\tnats://127.0.0.1:1\n"
    assert "export AFL_STORE='postgres://127.0.0.1:1'" in done.err


def test_down_keeps_the_data_unless_told(afl: Afl, stack: Recorded) -> None:
    assert afl("down").err == "No server was running\n"
    assert afl("down", "--remove").err == "Stopped postgres\n"
    assert stack.asked == [False, True]


def test_a_server_that_does_not_start(afl: Afl, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object) -> None:
        raise ServerError("postgres did not start: no space left")

    monkeypatch.setattr(servers, "up", refused)
    done = afl("up")
    assert done.code == 1
    assert "error[server-error]: postgres did not start: no space left" in done.err


def test_status_before_anything_was_started(afl: Afl) -> None:
    done = afl("status")
    assert (done.code, done.out) == (0, "")
    assert "`afl up` starts some" in done.err


def test_status(afl: Afl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    running = servers.ServerStatus(
        "nats", "running", "nats://127.0.0.1:4", 7, 1_000, tmp_path, tmp_path / "log"
    )
    died = servers.ServerStatus("redis", "died", None, None, 1_000, tmp_path, tmp_path / "log")
    monkeypatch.setattr(servers, "status", lambda folder: [running, died])
    lines = afl("status").out.splitlines()
    assert lines[0].split()[:3] == ["nats", "running", "nats://127.0.0.1:4"]
    assert lines[1].split()[:4] == ["redis", "died", "see", str(tmp_path / "log")]
