"""Four processes run workflows on one SQLite file, which all of them open at the same moment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.warm_processes import WarmPopen

from afl.runtime.entities import RunnerState
from afl.runtime.sqlite_store import SqliteStore

SCRIPT = str(Path(__file__).with_name("file_sharer.py"))
PROCESSES = 4


class Sharers:
    """The processes; what is said is said to all before any answer is read."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._all = [stack.enter_context(self._started(url)) for _ in range(PROCESSES)]
        for process in self._all:
            stack.callback(process.kill)
        assert {self._line(process) for process in self._all} == {"ready"}

    def _started(self, url: str) -> WarmPopen:
        pipe = subprocess.PIPE
        return WarmPopen([SCRIPT, url], stdin=pipe, stdout=pipe, stderr=pipe)

    def _line(self, process: WarmPopen) -> str:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline().strip()
        assert line, process.stderr.read()
        return line

    def tell(self, line: str) -> list[dict[str, Any]]:
        for process in self._all:
            assert process.stdin is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
        return [json.loads(self._line(process)) for process in self._all]

    def end(self) -> list[tuple[int, str]]:
        """Exit codes and standard errors."""
        ends = [(process, process.communicate(timeout=60)) for process in self._all]
        return [(process.returncode, err) for process, (_, err) in ends]


@pytest.fixture
def url(folder_on_disk: Path) -> str:
    return f"sqlite:///{folder_on_disk / 'shared.db'}"


@pytest.fixture
def sharers(url: str) -> Iterator[Sharers]:
    with ExitStack() as stack:
        yield Sharers(url, stack)


def test_all_may_open_a_new_file_at_once_and_each_gets_a_fair_share(sharers: Sharers, url: str) -> None:
    opened = sharers.tell("open")
    assert [answer["right"] for answer in opened] == [True] * PROCESSES, opened
    answers = sharers.tell("work 4")
    assert [answer["wrong"] for answer in answers] == [[]] * PROCESSES
    commits = [answer["commits"] for answer in answers]
    assert min(commits) * 2 >= sum(commits) / PROCESSES, f"unfair shares: {commits}"
    assert sharers.end() == [(0, "")] * PROCESSES
    runs = PROCESSES + sum(answer["runs"] for answer in answers)
    store = SqliteStore(url)
    try:
        assert len(store.get_runs(state=RunnerState.COMPLETED, limit=runs + 1)) == runs
        assert len(store.get_runs(limit=runs + 1)) == runs
    finally:
        store.close()


@pytest.mark.parametrize("attempt", range(5))
def test_opening_a_new_file_at_once_never_fails(sharers: Sharers, attempt: int) -> None:
    opened = sharers.tell("open")
    assert [answer["right"] for answer in opened] == [True] * PROCESSES, opened
    assert sharers.end() == [(0, "")] * PROCESSES
