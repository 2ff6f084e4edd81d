"""Servers of a test run end with it, however it ends, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.eventually import eventually
from support.processes import python, wait_until

from afl.devstack import SERVERS, ProcessMark, Stack, temporary_stack
from afl.devstack.state import State, StateFile

TESTS = Path(__file__).parents[2]
LONGEST = 60.0

HOLD_A_STACK = """
import sys
from afl.devstack import temporary_stack
with temporary_stack(sys.argv[1]) as stack:
    stack.up({services!r})
    print("up", flush=True)
    sys.stdin.read()
"""

# Each test reports where its server is, then waits forever: it can only be killed.
HOLDING_TEST = """
import os, threading
from pathlib import Path

def test_hold(redis_url, servers, tmp_path_factory):
    report = Path(os.environ["REPORT"]) / Path(__file__).stem
    report.with_suffix(".new").write_text(f"{redis_url} {servers.folder} {os.getpid()}")
    report.with_suffix(".new").rename(report)
    threading.Event().wait()
"""


def processes(state: State) -> list[ProcessMark]:
    marks = [entry.mark for entry in state.servers.values()]
    return [*marks, state.watchdog] if state.watchdog else marks


def test_servers_die_with_a_killed_owner(folder: Path) -> None:
    place = folder / "servers"
    with python("-c", HOLD_A_STACK.format(services=list(SERVERS)), str(place)) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        marks = processes(StateFile(place).read())
        assert len(marks) == len(SERVERS) + 1
        assert all(mark.alive for mark in marks)
        owner.kill()
        owner.wait()
        assert all(mark.wait(LONGEST) for mark in marks)
    assert not place.exists()


@pytest.mark.parametrize("sight", ["postgres/data.new", "postgres/data"])
def test_an_owner_that_is_killed_while_it_starts_leaves_nothing(folder: Path, sight: str) -> None:
    place = folder / "servers"
    with python("-c", HOLD_A_STACK.format(services=["postgres"]), str(place)) as owner:
        wait_until(lambda: (place / sight).exists(), owner)
        watchdog = StateFile(place).read().watchdog
        owner.kill()
        owner.wait()
        started = processes(StateFile(place).read())
    assert watchdog is not None
    assert watchdog.wait(LONGEST)
    assert not any(mark.alive for mark in started)
    assert not place.exists()


def test_the_watchdog_goes_with_the_servers() -> None:
    with temporary_stack() as stack:
        stack.up(["redis"])
        marks = processes(StateFile(stack.folder).read())
    assert len(marks) == 2
    assert not any(mark.alive for mark in marks)


def test_a_stack_of_a_dead_owner_ends_at_once(folder: Path) -> None:
    place = folder / "servers"
    Stack(place, owner=ProcessMark(1, "before all time")).up(["redis"])
    state = StateFile(place).read()
    assert all(mark.wait(LONGEST) for mark in processes(state))


def test_a_killed_test_run_shares_its_servers_and_leaves_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AFL_TEST_REDIS_URL", raising=False)
    names = ["test_1", "test_2"]
    for name in names:  # the tests of one file run in one process
        (tmp_path / f"{name}.py").write_text(HOLDING_TEST)
    options = (
        "--processes",
        "2",
        "-p",
        "no:valkey",
        "-p",
        "no:cacheprovider",
        "-p",
        "conftest",
        "-c",
        "/dev/null",
    )
    arguments = ("-m", "pytest", *options, f"--rootdir={tmp_path}", str(tmp_path))
    with python(*arguments, PYTHONPATH=str(TESTS), REPORT=str(folder), TMPDIR=str(folder)) as run:
        wait_until(lambda: all((folder / name).exists() for name in names), run)
        reports = [(folder / name).read_text().split() for name in names]
        marks = processes(StateFile(Path(reports[0][1])).read())
        assert len(marks) == 2
        run.kill()
        run.wait()
        assert all(mark.wait(LONGEST) for mark in marks)
    urls, folders, workers = (set(column) for column in zip(*reports, strict=True))
    assert (len(urls), len(folders), len(workers)) == (1, 1, 2)
    assert not Path(folders.pop()).exists()
    eventually(lambda: not any(Path("/proc", pid).exists() for pid in workers))
