"""kill -9 at named points of a process that works on timers, signals, child runs, loops and limits; another goes on.

On every store the results are those of a run that nothing happened to, and every timer and signal counts once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import lives, mongo_lives
from support.observed_run import ObservedRun
from support.primitives import MAIL, SIGNALS, Piece, everything
from support.warm_processes import afl_warm

from afl.kernel import crashpoint
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.store import open_store

# Each call leaves a line with its idempotency key.
AGENTS = """
from afl import handler


@handler("t.Do")
def do(key, context):
    with open("calls.txt", "a") as lines:
        lines.write(f"{context.idempotency_key}\\n")
    if key == "element-2":
        raise ValueError("refused")
    return {"n": len(key)}
"""
RUNNER = (
    *("take.after:1", "claim.after:1", "commit.before:2", "commit.after:5"),
    *("handler.before:1", "deliver.before:2", "finish.before:3", "finish.after:5"),
)
RESUME = (
    *("commit.before:1", "commit.after:2", "commit.before:9"),
    *("handler.after:3", "deliver.before:4", "finish.before:1", "finish.after:2"),
)
SENDER = ("finish.before:1", "finish.after:1")


@dataclass(frozen=True)
class Scene:
    """A store, and a folder in which processes work on it."""

    folder: Path
    url: str
    store: PersistenceAPI

    def kill(self, observed: ObservedRun, *words: str, point: str) -> None:
        """A process that is killed at a point of its work."""
        killed = afl_warm(*words, folder=self.folder, AFL_STORE=self.url, AFL_CRASH_AT=point)
        assert killed.code == -9, f"{point} was not reached: {killed}"
        path = self.folder / "calls.txt"
        observed.calls.update(path.read_text().split() if path.exists() else [])
        self._end_leases()
        observed.died(self.store)

    def _end_leases(self) -> None:
        """A death is proven on a file at once, on PostgreSQL in a second, and on MongoDB never."""
        if isinstance(self.store, MongoStore):
            self.store.connection.call(mongo_lives.end_leases)
        elif isinstance(self.store, PostgresStore):
            lives.end_leases(self.store.database)


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    url = request.getfixturevalue(f"empty_{request.param}_url")
    (tmp_path / "agents.py").write_text(AGENTS)
    with closing(open_store(url)) as store:
        yield Scene(tmp_path, url, store)


def begun(scene: Scene, piece: Piece) -> ObservedRun:
    """A run to which all signals have come before it begins."""
    observed = ObservedRun(piece, "run")
    observed.begin(scene.store)
    observed.send(scene.store, SIGNALS)
    return observed


def check_next(scene: Scene, observed: ObservedRun) -> None:
    """The process of this test goes on with the run, and comes to the same end."""
    observed.live(scene.store)
    observed.check(scene.store)
    assert observed.delivered == dict.fromkeys(SIGNALS, 1)


@pytest.mark.parametrize("point", RUNNER)
def test_a_runner_is_killed(scene: Scene, point: str) -> None:
    observed = begun(scene, everything(2))
    scene.kill(observed, "runner", "--agent", "agents.py", "--no-http", point=point)
    check_next(scene, observed)


@pytest.mark.parametrize("point", RESUME)
def test_afl_resume_is_killed(scene: Scene, point: str) -> None:
    observed = begun(scene, everything(2))
    scene.kill(observed, "resume", "run", "--agent", "agents.py", "--quiet", point=point)
    check_next(scene, observed)


def test_a_runner_is_killed_in_a_loop_whose_first_iterations_are_gone(scene: Scene) -> None:
    observed = begun(scene, everything(13))
    scene.kill(observed, "runner", "--agent", "agents.py", "--no-http", point="commit.before:40")
    check_next(scene, observed)


@pytest.mark.parametrize("point", SENDER)
def test_a_sender_is_killed_and_sends_again(scene: Scene, point: str) -> None:
    observed = ObservedRun(MAIL, "run")
    observed.begin(scene.store)
    observed.await_note(scene.store)
    given = ("--input", "text=a", "--id", "early-1")
    scene.kill(observed, "signal", "run", "note", *given, point=point)
    assert scene.store.get_signal(observed.run, "early-1") is not None
    observed.live(scene.store)
    observed.check(scene.store)
    assert observed.delivered == {"early-1": 0, "early-2": 1, "late-3": 1}


def test_every_crash_point_is_visited() -> None:
    visited = {point.partition(":")[0] for point in (*RUNNER, *RESUME, *SENDER)}
    assert visited == set(crashpoint.POINTS)
