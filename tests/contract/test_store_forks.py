"""Reruns and forks on every store: where runs come from, forks at every step, and deaths before every write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_records import OpenStore, a_run
from support.case import Case
from support.forks import MIXTURE, SOURCE, check_fork, finish, fork_at, record, start
from support.judging import Trial
from support.lives import Crash, Death, Lives, PostgresLife
from support.mongo_lives import MongoLives
from support.properties import tries
from support.random_workflows import cases

from afl.kernel.errors import FencedError, StoreConflict
from afl.operations.run.rerun import rerun
from afl.runtime.entities import RunnerState
from afl.runtime.evaluation.forking import store_fork
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.types import WorkflowId

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


def test_runs_are_found_by_the_run_that_they_repeat(store: PersistenceAPI) -> None:
    store.insert_run(a_run("one", state=RunnerState.CREATED, created=1))
    store.insert_run(a_run("again", state=RunnerState.CREATED, created=2, origin="one"))
    fork = a_run("fork", created=3, origin="one/0/a")
    store.commit(IterationChanges(run=fork, new_run=True))
    store.insert_run(a_run("other", state=RunnerState.CREATED, created=4, origin="one-more"))
    store.insert_run(a_run("deeper", state=RunnerState.CREATED, created=5, origin="one/0/ab"))
    assert [run.workflow_id for run in store.get_runs_from("one")] == ["deeper", "fork", "again"]
    assert [run.workflow_id for run in store.get_runs_from("one", 1)] == ["deeper"]
    assert [run.workflow_id for run in store.get_runs_from("one/0/a")] == ["fork"]
    assert store.get_runs_from("again") == []
    found = store.get_run(WorkflowId("fork"))
    assert found is not None
    assert (found.origin, found.source) == ("one/0/a", "one")


def test_who_takes_a_run_knows_where_it_comes_from(store: PersistenceAPI) -> None:
    store.insert_run(a_run("again", state=RunnerState.CREATED, origin="one", owner=""))
    store.insert_run(a_run("too", state=RunnerState.CREATED, origin="two", owner=""))
    taken = store.take_run(WorkflowId("again"), lease_ms=60_000)
    assert taken is not None
    assert taken.origin == "one"
    assert [run.origin for run in store.take_runs([WorkflowId("too")], lease_ms=60_000)] == ["two"]


def test_a_fork_at_every_step_comes_to_the_same(store: PersistenceAPI) -> None:
    trial, evaluator = Trial.of(MIXTURE), Evaluator(store)
    start(trial, evaluator, SOURCE)
    finish(trial, evaluator, SOURCE)
    expected = record(store, SOURCE)
    for number, path in enumerate(filter(None, expected["steps"])):
        run = WorkflowId(f"fork-{number}")
        made = fork_at(trial, store, path, id=run)
        assert run in store.get_due_runs()
        finish(trial, evaluator, run)
        check_fork(store, made, expected)
    assert record(store, SOURCE) == expected


@pytest.mark.parametrize("path", ["0/each/0/#1/one", "0/careful/!/rescue"])
def test_a_death_before_every_write(next_life: NextLife, path: str) -> None:
    trial, store = Trial.of(MIXTURE), next_life(None)
    start(trial, Evaluator(store), SOURCE)
    finish(trial, Evaluator(store), SOURCE)
    expected = record(store, SOURCE)
    for write in count(1):
        run, store = WorkflowId(f"fork-{write}"), next_life(Death(write, after=False))
        try:
            made = fork_at(trial, store, path, id=run)
            finish(trial, Evaluator(store), run)
            break
        except Crash:
            store = next_life(None)
        if store.get_run(run) is None:
            made = fork_at(trial, store, path, id=run)
        finish(trial, Evaluator(store), run)
        check_fork(store, made, expected)
    assert write > 3


_examples = count()


@settings(
    tries(2),
    suppress_health_check=[*tries(1).suppress_health_check, HealthCheck.function_scoped_fixture],
)
@given(cases(alone=True), st.integers(0, 2**32))
def test_random_forks_and_reruns_with_a_death_before_every_write(
    next_life: NextLife, case: Case, seed: int
) -> None:
    trial, store, name = Trial.of(case), next_life(None), f"source-{next(_examples)}"
    source = WorkflowId(name)
    start(trial, Evaluator(store), source)
    finish(trial, Evaluator(store), source)
    expected = record(store, source)
    path = Random(seed).choice(sorted(filter(None, expected["steps"])))
    for write in count(1):
        fork, again = WorkflowId(f"{name}-fork-{write}"), WorkflowId(f"{name}-again-{write}")
        store, died = next_life(Death(write, after=False)), False
        while True:
            try:
                if store.get_run(fork) is None:
                    made = fork_at(trial, store, path, id=fork, source=source)
                finish(trial, Evaluator(store), fork)
                rerun(store, source, id=again)
                finish(trial, Evaluator(store), again)
                break
            except Crash:
                store, died = next_life(None), True
        check_fork(store, made, expected)
        assert record(store, again) == expected
        if not died:
            break
    assert write > 1
    assert record(store, source) == expected


def test_a_fork_is_stored_whole_or_not_at_all(open_store: OpenStore) -> None:
    store, trial = open_store(), Trial.of(MIXTURE)
    start(trial, Evaluator(store), SOURCE)
    finish(trial, Evaluator(store), SOURCE)
    made = fork_at(trial, store, "0/a")
    before = record(store, WorkflowId(made.run.workflow_id))
    with pytest.raises((FencedError, StoreConflict)):
        store_fork(open_store(), made)
    assert record(store, WorkflowId(made.run.workflow_id)) == before
