"""A death before every commit: the next life comes to the same end, with each piece of work done once.

All of it on an SQLite database in memory; `test_primitive_crashes.py` has the stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.case import Case
from support.driving import drive, drive_locally
from support.judging import TIGHT, Trial, check
from support.lives import Crash, Death, Lives, Outages
from support.properties import EXPLORING, tries
from support.random_workflows import cases
from support.telling_workflows import TELLING

from afl.kernel.errors import StoreUnavailable
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import ExecutionResult
from afl.runtime.persistence import PersistenceAPI

Drive = Callable[[Trial, PersistenceAPI, Random, Pace], ExecutionResult]
DRIVES: dict[str, Drive] = {"agents outside": drive, "handlers here": drive_locally}
PACES = {"tight": TIGHT, "usual": Pace()}
LEAST = 6  # writes of a life that follows another: so each of them gets on
PARTS = 4  # of the workflows: those of a part share the reads that fail
TIMES = 10 if EXPLORING else 1  # that a read fails for each place of the engine that it comes from
# Of a run: a task is given up when five workers died. Agents outside have no task in their hands at most of the reads.
MOST_OUTAGES = {"agents outside": 4 if EXPLORING else 10_000, "handlers here": 4}
MOST_LIVES = 8  # that do not see the end; the next one is left alone


def live(lives: Lives, trial: Trial, how: Drive, pace: Pace, seed: int, end: Death | Outages | None) -> bool:
    """One life; True if it saw the end of the run, whose record is then checked."""
    store = lives.next(end)
    try:
        result = how(trial, store, Random(seed), pace)
    except (Crash, StoreUnavailable):
        return False
    if isinstance(result.error, StoreUnavailable):
        return False
    check(trial, lives.next(), result)
    return True


def outlive_all(lives: Lives, trial: Trial, how: Drive, pace: Pace, seed: int, ends: Iterable[Death]) -> None:
    """Lives that end so, until one sees the end of the run."""
    over = any(live(lives, trial, how, pace, seed + number, end) for number, end in enumerate(ends))
    assert over or live(lives, trial, how, pace, seed - 1, None)
    lives.end()


def die_everywhere(trial: Trial, how: Drive, pace: Pace, *, proven: bool = True, step: int = 1) -> int:
    """Die before the first write, before the second, ... of a run; how many writes it takes without that.

    Whoever goes on dies as well, a fourth of the run later, so that one run in four is enough for all writes. A death
    after a write leaves the same store as one before the next write, and memory is lost in both cases.
    """
    lives = Lives(proven=proven)
    assert live(lives, trial, how, pace, 0, None)
    writes = lives.first.writes
    lives.end()
    span = max(LEAST, writes // MOST_LIVES + 1)
    for write in range(1, min(span, writes) + 1, step):
        ends = (Death(span if number else write, after=False) for number in range(MOST_LIVES))
        outlive_all(Lives(proven=proven), trial, how, pace, write, ends)
    return writes


# At the usual pace agents outside see no store that they do not see at the tight one, which commits after every step.
# There the two ways leave the same steps in the store, and differ in who holds the tasks: the second one dies at every
# other write, unless the tests explore.
@pytest.mark.parametrize(
    ("how", "pace"), [("agents outside", "tight"), ("handlers here", "tight"), ("handlers here", "usual")]
)
@pytest.mark.parametrize("name", TELLING)
def test_a_death_at_every_write(name: str, how: str, pace: str) -> None:
    trial = Trial.of(TELLING[name])
    step = 2 if (how, pace) == ("handlers here", "tight") and not EXPLORING else 1
    assert die_everywhere(trial, DRIVES[how], PACES[pace], step=step) > 2


@pytest.mark.parametrize("how", DRIVES)
def test_a_death_that_only_shows_in_leases_that_end(how: str) -> None:
    trial = Trial.of(TELLING["foreach"])
    assert die_everywhere(trial, DRIVES[how], TIGHT, proven=False) > 5


@pytest.mark.parametrize("how", DRIVES)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_read_that_fails_costs_a_try_and_nothing_else(part: int, how: str) -> None:
    """At every place of the engine that reads, in some of the workflows in which it does."""
    outages = Outages(TIMES)
    failed = sum(
        outlive_outages(Trial.of(TELLING[name]), how, outages) for name in list(TELLING)[part::PARTS]
    )
    assert failed >= outages.places > 20


def outlive_outages(trial: Trial, how: str, outages: Outages) -> int:
    """Runs of a workflow, until no read of it is left to fail; how many did."""
    failed, over = 0, False
    while not over:
        lives, before = Lives(), failed
        while not over and failed < before + MOST_OUTAGES[how]:
            over = live(lives, trial, DRIVES[how], TIGHT, failed, outages)
            failed += not over
        assert over or live(lives, trial, DRIVES[how], TIGHT, failed, None)
        lives.end()
    return failed


deaths = st.lists(st.builds(Death, st.integers(1, 25), st.booleans()), min_size=1, max_size=4)


def outlive(url: str, case: Case, ends: list[Death], seed: int, pace: Pace) -> None:
    """Several lives of random kinds, each dying somewhere; the last one finishes."""
    trial, random, lives = Trial.of(case), Random(seed), Lives(url)
    kinds = list(DRIVES.values())
    over = any(live(lives, trial, random.choice(kinds), pace, random.getrandbits(32), end) for end in ends)
    assert over or live(lives, trial, random.choice(kinds), pace, random.getrandbits(32), None)
    lives.end()


@tries(150, deep=250)
@given(cases(), deaths, st.integers(0, 2**32), st.sampled_from(list(PACES.values())))
def test_random_programs_outlive_several_deaths(case: Case, ends: list[Death], seed: int, pace: Pace) -> None:
    outlive("memory://", case, ends, seed, pace)


@tries(30)
@given(case=cases(), ends=deaths, seed=st.integers(0, 2**32))
def test_random_programs_outlive_several_deaths_on_a_file(
    tmp_path_factory: pytest.TempPathFactory, case: Case, ends: list[Death], seed: int
) -> None:
    outlive(f"sqlite:///{tmp_path_factory.mktemp('lives') / 'afl.db'}", case, ends, seed, TIGHT)
