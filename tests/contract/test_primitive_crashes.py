"""A process dies before every write of a run with timers, signals, child runs, loops and limits; the next goes on.

A death after a write leaves the same store as one before the next write, and memory is lost in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from support.lives import Crash, Death, Lives, PostgresLife
from support.mongo_lives import MongoLives
from support.observed_run import ObservedRun
from support.primitives import FAN, MAIL, PARTS, everything, loop

from afl.operations.run.control import cancel
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.recovery.sweep import receive_lost_signals, reclaim
from afl.runtime.types import WorkflowId

PIECES = {"timers and signals": MAIL, "child runs": PARTS, "a loop": loop(2), "fan-out": FAN}
SPAN = 9
NextLife = Callable[[Death | None], PersistenceAPI]


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def next_life(request: pytest.FixtureRequest) -> Iterator[NextLife]:
    """The store as the next process opens it."""
    url = request.getfixturevalue(f"empty_{request.param}_url")
    lives: Lives | MongoLives
    if request.param == "mongo":
        lives = MongoLives(url)
    else:
        lives = Lives(url, kind=PostgresLife) if request.param == "postgres" else Lives(url)
    yield lives.next
    lives.end()


@pytest.mark.parametrize("name", PIECES)
def test_a_death_before_every_write(next_life: NextLife, name: str) -> None:
    """Whoever goes on dies as well, SPAN writes later: so many runs are enough for all writes."""
    for write in range(1, SPAN + 1):
        observed = ObservedRun(PIECES[name], f"run-{write}")
        assert not survives(observed, next_life(Death(write, after=False)))
        while True:
            store = next_life(Death(SPAN, after=False))
            observed.died(store)
            if survives(observed, store):
                break
        observed.check(store)


def survives(observed: ObservedRun, store: PersistenceAPI) -> bool:
    """Whether the life of this store sees the end of the run."""
    try:
        observed.live(store)
    except Crash:
        return False
    return True


def test_a_death_before_every_write_of_a_cancel(next_life: NextLife) -> None:
    for write in count(1):
        observed, store = ObservedRun(everything(2), f"run-{write}"), next_life(None)
        observed.begin(store)
        Evaluator(store).resume(observed.run)
        for child in store.get_children(observed.run):
            Evaluator(store).resume(WorkflowId(child.workflow_id))
        try:
            cancel_and_sweep(next_life(Death(write, after=False)), observed.run)
            break
        except Crash:
            store = next_life(None)
        cancel_and_sweep(store, observed.run)
        check_canceled(store, observed)
    assert write > 3


def cancel_and_sweep(store: PersistenceAPI, run: str) -> None:
    cancel(store, run)
    reclaim(Evaluator(store))


def check_canceled(store: PersistenceAPI, observed: ObservedRun) -> None:
    """Nothing is left of the run that could go on, but for the child that goes on without it."""
    states = {name: run.state for name, run in observed.piece.family(store, observed.run).items()}
    free = states.pop("-free")
    assert states == dict.fromkeys(("", "-awaited", "-ended"), RunnerState.CANCELED)
    assert free in (RunnerState.CREATED, RunnerState.RUNNING)
    for name in states:
        tasks = store.get_tasks_by_workflow(WorkflowId(observed.run + name))
        assert {task.state for task in tasks} <= {TaskState.CANCELED}
    assert (store.next_timer(), store.ended_elsewhere("run"), store.get_unsettled_children()) == (
        None,
        [],
        [],
    )


def test_a_sender_dies_before_every_write_and_never_comes_back(next_life: NextLife) -> None:
    """What it stored is received by whoever sweeps, without it."""
    for write in count(1):
        observed, store = ObservedRun(MAIL, f"run-{write}"), next_life(None)
        observed.begin(store)
        observed.await_note(store)
        try:
            observed.send(next_life(Death(write, after=False)), {"early-1": "a"})
            break
        except Crash:
            store = next_life(None)
        receive_lost_signals(Evaluator(store))
        stored = store.get_signal(observed.run, "early-1")
        assert (stored is None) == (write == 1)
        assert stored is None or stored.task_id
    assert write == 3
