"""After crashes the state of a stack may name processes that are gone or not ours: none may be harmed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.stacks import emptied_folder

from afl.devstack import ProcessMark, down, status, up
from afl.devstack.process import Command, launch
from afl.devstack.state import StateFile
from afl.kernel.errors import StoreCorrupt


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def kept() -> Iterator[Path]:
    """A folder where PostgreSQL has its data already: to make them takes longer than each of these tests."""
    with emptied_folder() as folder:
        up(folder, ["postgres"])
        yield folder


def mark_of(folder: Path, service: str) -> ProcessMark:
    return StateFile(folder).read().servers[service].mark


def blame(folder: Path, service: str, pid: int) -> None:
    """As if the server had died and its process id had passed to somebody else."""
    file = StateFile(folder)
    state = file.read()
    entry = state.servers[service]
    assert entry.mark.end(signal.SIGKILL, 10)
    entry.mark = ProcessMark(pid, "an earlier moment")
    file.write(state)


def test_down_never_signals_a_stranger(folder: Path, stranger: subprocess.Popen[bytes]) -> None:
    up(folder, ["redis"])
    blame(folder, "redis", stranger.pid)
    assert down(folder) == []
    assert stranger.poll() is None


def test_up_replaces_a_server_whose_id_a_stranger_has(
    folder: Path, stranger: subprocess.Popen[bytes]
) -> None:
    up(folder, ["redis"])
    blame(folder, "redis", stranger.pid)
    assert [server.state for server in status(folder)] == ["died"]
    up(folder, ["redis"])
    assert [server.state for server in status(folder)] == ["running"]
    assert mark_of(folder, "redis").pid != stranger.pid
    assert stranger.poll() is None


def test_postgres_starts_although_a_stranger_has_the_id_in_its_lock_file(
    kept: Path, stranger: subprocess.Popen[bytes]
) -> None:
    up(kept, ["postgres"])
    blame(kept, "postgres", stranger.pid)
    lock = kept / "postgres" / "data" / "postmaster.pid"
    lines = lock.read_text().splitlines()
    lock.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
    with psycopg.connect(up(kept, ["postgres"])["postgres"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert stranger.poll() is None


@pytest.mark.parametrize("service", ["postgres", "redis", "nats", "mongo"])
def test_a_killed_server_shows_as_died_and_comes_back(kept: Path, folder: Path, service: str) -> None:
    folder = kept if service == "postgres" else folder
    url = up(folder, [service])[service]
    assert mark_of(folder, service).end(signal.SIGKILL, 10)
    assert [server.state for server in status(folder)] == ["died"]
    assert up(folder, [service])[service] == url
    assert [server.state for server in status(folder)] == ["running"]


def test_a_server_whose_starter_died_while_waiting_is_adopted(kept: Path) -> None:
    url = up(kept, ["postgres"])["postgres"]
    before = mark_of(kept, "postgres")
    file = StateFile(kept)
    state = file.read()
    state.servers["postgres"].url = None
    file.write(state)
    assert [server.state for server in status(kept)] == ["starting"]
    assert up(kept, ["postgres"])["postgres"] == url
    assert mark_of(kept, "postgres") == before


def test_nothing_runs_before_it_is_recorded(folder: Path) -> None:
    seen: list[ProcessMark] = []

    def crash(mark: ProcessMark) -> None:
        seen.append(mark)
        raise RuntimeError("died before the state was written")

    with pytest.raises(RuntimeError):
        launch(Command(("touch", str(folder / "ran"))), folder / "log", crash)
    assert seen[0].wait(10)
    assert not (folder / "ran").exists()


def test_a_mark_is_of_one_process_only(stranger: subprocess.Popen[bytes]) -> None:
    mark = ProcessMark.of(stranger.pid)
    assert mark is not None and mark.alive
    assert not ProcessMark(stranger.pid, "another moment").alive
    assert not ProcessMark(stranger.pid, "another moment").send(signal.SIGKILL)
    assert stranger.poll() is None
    assert mark.send(signal.SIGKILL)
    assert mark.wait(10)  # not reaped yet: a zombie is as good as gone
    assert not mark.send(signal.SIGKILL)
    stranger.wait()
    assert ProcessMark.of(stranger.pid) is None


def test_a_damaged_state_is_said_so(folder: Path) -> None:
    StateFile(folder).path.write_text("{half")
    with pytest.raises(StoreCorrupt, match=r"stack\.json"):
        up(folder, ["redis"])
    with pytest.raises(StoreCorrupt, match=r"stack\.json"):
        down(folder)
    StateFile(folder).path.unlink()
