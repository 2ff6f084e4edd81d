"""Stores that can prove a process's death do not wait for its leases.

A child process takes a task, a run and a lock for a long time and is killed: whoever sweeps next frees all of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from store_records import LONG, RUN, a_task, begin, eventually, stored_run, stored_task
from support.processes import python

from afl.kernel.presence import Life
from afl.runtime.entities import TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.store import open_store

CHILD = Path(__file__).parent / "store_victim.py"
TESTS = CHILD.parent.parent


@dataclass(frozen=True)
class DiagnosticSnapshot:
    """A store in which a killed process still holds everything."""

    store: PersistenceAPI
    dead: str


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"empty_{request.param}_url")
    return found


@pytest.fixture
def scene(url: str) -> Iterator[DiagnosticSnapshot]:
    store = open_store(url)
    store.save_task(a_task(step_id="s"))
    begin(store, owner="")
    path = ":".join(str(each) for each in (CHILD.parent, TESTS, *sys.path) if each)
    with python(str(CHILD), url, PYTHONPATH=path) as child:
        assert child.stdout is not None
        owner = child.stdout.readline().strip()
        assert stored_task(store).owner == owner != ""
        assert store.reclaim() == 0  # it lives, and its claim has no lease that could end
        assert store.life(owner) is not Life.DEAD
        child.kill()
        child.wait()
    yield DiagnosticSnapshot(store, owner)
    store.close()


def test_all_that_a_dead_process_held_is_free(scene: DiagnosticSnapshot) -> None:
    store = scene.store
    epoch = stored_run(store).epoch
    assert eventually(store.reclaim) == 2
    task, run = stored_task(store), stored_run(store)
    assert (task.state, task.owner, task.deaths, task.epoch) == (TaskState.PENDING, "", 1, 2)
    assert (task.last_owner, task.hold, task.lock_until) == (scene.dead, "", 0)
    assert (run.owner, run.lease_until, run.epoch) == ("", 0, epoch + 1)
    assert store.check_lock("named") is None
    assert store.get_due_runs() == [RUN]
    assert store.life(scene.dead) is Life.DEAD
    assert scene.store.describe(scene.dead)


def test_the_attempt_of_a_dead_process_is_recorded(scene: DiagnosticSnapshot) -> None:
    assert eventually(scene.store.reclaim) == 2
    (attempt,) = scene.store.get_failed_attempts(RUN)
    assert (attempt.number, attempt.outcome, attempt.worker) == (1, "died", scene.dead)
    assert 0 < attempt.started <= attempt.ended
    assert scene.store.describe(scene.dead) == f"process {attempt.pid} on {attempt.host}"
    (line,) = scene.store.get_logs_by_runner(RUN)
    assert (line.attempt, line.message) == (1, "attempt 1 was lost: its worker died")


def test_a_task_that_kills_its_workers_is_poisoned(scene: DiagnosticSnapshot) -> None:
    scene.store.max_deliveries = 1
    eventually(scene.store.reclaim)
    task = stored_task(scene.store)
    assert (task.hold, task.last_owner) == (TaskHold.POISONED, scene.dead)
    assert scene.store.claim_task(["F"]) is None


def test_the_run_of_a_dead_process_can_be_taken_at_once(scene: DiagnosticSnapshot) -> None:
    run = eventually(lambda: scene.store.life(scene.dead) is Life.DEAD and _take(scene.store))
    assert run == scene.store.owner_id


def _take(store: PersistenceAPI) -> str:
    run = store.take_run(RUN, lease_ms=LONG)
    return run.owner if run is not None else ""
