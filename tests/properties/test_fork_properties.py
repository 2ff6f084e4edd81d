"""Forks at any step of any workflow: without edits they come to the same, and no agent does again what is kept.

If the agent of the step answers something else, a fork comes to what a run from the beginning comes to then: so
everything that depends on the step was executed again.
"""

from __future__ import annotations

import re
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.case import Case
from support.forks import (
    FORK,
    MIXTURE,
    SOURCE,
    check_fork,
    finish,
    fork_at,
    other_answers,
    record,
    start,
    tasks_of,
)
from support.judging import TIGHT, Trial
from support.kept_memory import give_back, kept_store
from support.lives import Crash, Death, Lives
from support.properties import tries
from support.random_workflows import cases
from support.telling_workflows import TELLING

from afl.runtime.evaluation.fork_check import ForkRefused
from afl.runtime.evaluation.fork_steps import ForkEdits
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

# Those in which nobody but agents and timers is waited for.
ALONE = [
    name
    for name, case in TELLING.items()
    if not any(word in name for word in ("signal", "child run")) and "Run(" not in case.source.split("W(")[-1]
]
MOST_STEPS = 4  # of a random workflow


def begin(trial: Trial, store: PersistenceAPI, pace: Pace | None = None) -> Evaluator:
    """The source, which is over."""
    evaluator = Evaluator(store, pace=pace)
    start(trial, evaluator, SOURCE)
    finish(trial, evaluator, SOURCE)
    return evaluator


def some_steps(store: PersistenceAPI, seed: int) -> list[str]:
    steps = sorted(path for path in record(store, SOURCE)["steps"] if path)
    return Random(seed).sample(steps, min(MOST_STEPS, len(steps)))


def _is_told(path: str) -> bool:
    """Of the root nothing can be forked; and one element of a loop tells what those after it would."""
    return bool(path) and not re.search(r"#([2-9]|\d\d)", path)


@pytest.mark.parametrize("name", ALONE)
def test_a_fork_at_every_step_comes_to_the_same(name: str) -> None:
    trial, store = Trial.of(TELLING[name]), kept_store()
    evaluator = begin(trial, store)
    expected = record(store, SOURCE)
    for path in filter(_is_told, expected["steps"]):
        run = WorkflowId(f"fork of {path}".replace("/", "-"))
        made = fork_at(trial, store, path, id=run)
        finish(trial, evaluator, run)
        check_fork(store, made, expected)
    give_back(store.database)


@tries(15)
@given(cases(alone=True), st.integers(0, 2**32), st.sampled_from([Pace(), TIGHT]))
def test_forks_of_random_workflows_come_to_the_same(case: Case, seed: int, pace: Pace) -> None:
    trial, store = Trial.of(case), kept_store()
    evaluator = begin(trial, store, pace)
    expected = record(store, SOURCE)
    for number, path in enumerate(some_steps(store, seed)):
        run = WorkflowId(f"fork-{number}")
        made = fork_at(trial, store, path, id=run)
        finish(trial, evaluator, run)
        check_fork(store, made, expected)
    give_back(store.database)


@tries(10)
@given(cases(alone=True), st.integers(0, 2**32))
def test_all_that_depends_on_a_step_is_executed_again(case: Case, seed: int) -> None:
    trial, store = Trial.of(case), kept_store()
    evaluator = begin(trial, store)
    worked = sorted(tasks_of(store, SOURCE))
    for number, path in enumerate(Random(seed).sample(worked, min(2, len(worked)))):
        afresh, fork = WorkflowId(f"afresh-{number}"), WorkflowId(f"fork-{number}")
        start(trial, evaluator, afresh)
        finish(trial, evaluator, afresh, other=path)
        made = fork_at(trial, store, path, id=fork)
        finish(trial, evaluator, fork, other=path)
        check_fork(store, made, record(store, afresh))
    give_back(store.database)


@tries(8)
@given(cases(alone=True), st.integers(0, 2**32))
def test_all_that_depends_on_a_result_that_is_given_is_executed_again(case: Case, seed: int) -> None:
    trial, store, random = Trial.of(case), kept_store(), Random(seed)
    evaluator = begin(trial, store)
    answers = other_answers(trial, store)
    for number, path in enumerate(random.sample(sorted(answers), min(2, len(answers)))):
        afresh, fork = WorkflowId(f"afresh-{number}"), WorkflowId(f"fork-{number}")
        edits = ForkEdits(results={path: answers[path]})
        try:
            made = fork_at(trial, store, some_steps(store, random.getrandbits(32))[0], edits, id=fork)
        except ForkRefused:
            continue  # that step is executed again, or the answer does not fit
        finish(trial, evaluator, fork)
        start(trial, evaluator, afresh)
        finish(trial, evaluator, afresh, other=path)
        check_fork(store, made, record(store, afresh))
    give_back(store.database)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("mixture", "0/a"),
        ("mixture", "0/each/0/#1/one"),
        ("mixture", "0/careful/0/bad"),
        ("mixture", "0/careful/!/rescue"),
        ("mixture", "0/mixed/@first"),
        ("mixture", "0/body/0/wait"),
        ("repeat", ""),
    ],
)
def test_a_death_before_every_write(name: str, path: str) -> None:
    trial, lives = Trial.of(MIXTURE if name == "mixture" else TELLING[name]), Lives()
    begin(trial, lives.next())
    expected = record(lives.next(), SOURCE)
    path = path or sorted(tasks_of(lives.next(), SOURCE))[-1]
    for write in count(1):
        run, store = WorkflowId(f"{FORK}-{write}"), lives.next(Death(write, after=False))
        try:
            made = fork_at(trial, store, path, id=run)
            finish(trial, Evaluator(store), run)
            break
        except Crash:
            store = lives.next()
        if store.get_run(run) is None:
            made = fork_at(trial, store, path, id=run)
        finish(trial, Evaluator(store), run)
        check_fork(store, made, expected)
    assert write > 3
    lives.end()
