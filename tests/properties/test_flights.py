"""Commits that are under way while the next answers are evaluated: the record is the same, whatever becomes of them."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.case import Case
from support.judging import Trial, check
from support.late_store import LateStore, drive_worker
from support.lives import Crash, Death, Lives, Outage
from support.properties import tries
from support.random_workflows import cases
from support.telling_workflows import TELLING, telling

from afl.kernel.errors import StoreUnavailable
from afl.runtime.pace import Pace

PACES = {
    "small": Pace(foreach_window=3, cached_steps=40, launch_tasks=1),
    "usual": Pace(launch_tasks=1),
}
FLYING = {
    "two in each": telling(
        """andThen foreach r in $.list {
            a = lib.Echo(p = r)
            b = lib.Echo(p = r + 1)
            yield main.W(all = [a.u, b.u])
        }""",
        list=[*range(7)],
    ),
    "two loops, one with failures": telling(
        """andThen foreach r in $.list { a = lib.Echo(p = r) yield main.W(all = [a.u]) }
        andThen foreach r in $.list {
            b = lib.Refuse(p = r) catch { yield lib.Refuse(u = 1) }
            yield main.W(all = [b.u])
        }""",
        list=[*range(5)],
    ),
    "failures in a foreach": TELLING["failures in a foreach"],
    "a foreach in a foreach": TELLING["foreach over a map, in a foreach"],
}


def live(lives: Lives, trial: Trial, pace: Pace, seed: int, end: Death | Outage | None = None) -> bool:
    """One life; True if it saw the end of the run, whose record is then checked."""
    store = lives.next(end)
    try:
        result = drive_worker(trial, store, Random(seed), pace)
    except (Crash, StoreUnavailable):
        return False
    check(trial, lives.next(), result)
    return True


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("name", {**TELLING, **FLYING})
def test_what_is_stored_late_is_stored_all_the_same(name: str, pace: str) -> None:
    trial = Trial.of({**TELLING, **FLYING}[name])
    for seed in range(8):
        lives = Lives(kind=LateStore)
        assert live(lives, trial, PACES[pace], seed)
        lives.end()


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("name", FLYING)
def test_answers_are_evaluated_while_others_are_stored(name: str, pace: str) -> None:
    trial, flights = Trial.of(FLYING[name]), 0
    for seed in range(8):
        lives = Lives(kind=LateStore)
        store = lives.next()
        assert isinstance(store, LateStore)
        check(trial, store, drive_worker(trial, store, Random(seed), PACES[pace]))
        flights += store.flights
        lives.end()
    assert flights > 8


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("name", FLYING)
def test_a_death_at_every_write(name: str, pace: str) -> None:
    trial = Trial.of(FLYING[name])
    for write in count(1):
        survived = []
        for after in (False, True):
            lives = Lives(kind=LateStore)
            survived.append(live(lives, trial, PACES[pace], write, Death(write, after)))
            assert survived[-1] or live(lives, trial, PACES[pace], write + 1)
            lives.end()
        if all(survived):
            assert write > 3
            return


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("name", FLYING)
def test_a_landing_that_nobody_hears_of(name: str, pace: str, after: bool) -> None:
    trial = Trial.of(FLYING[name])
    for lost in count(1):
        lives = Lives(kind=LateStore)
        store = lives.next()
        assert isinstance(store, LateStore)
        store.lost, store.after = lost, after
        check(trial, store, drive_worker(trial, store, Random(lost), PACES[pace]))
        lives.end()
        if store.flights < lost:
            assert lost > 1, "nothing was launched"
            return


@tries(150)
@given(
    cases(), st.integers(0, 2**32), st.integers(1, 12), st.booleans(), st.sampled_from(list(PACES.values()))
)
def test_random_programs_outlive_a_lost_landing(
    case: Case, seed: int, lost: int, after: bool, pace: Pace
) -> None:
    trial, lives = Trial.of(case), Lives(kind=LateStore)
    store = lives.next()
    assert isinstance(store, LateStore)
    store.lost, store.after = lost, after
    check(trial, store, drive_worker(trial, store, Random(seed), pace))
    lives.end()


@tries(100)
@given(cases(), st.integers(0, 2**32), st.integers(1, 40), st.sampled_from(list(PACES.values())))
def test_random_programs_outlive_a_read_that_fails(case: Case, seed: int, read: int, pace: Pace) -> None:
    trial, lives = Trial.of(case), Lives(kind=LateStore)
    assert live(lives, trial, pace, seed, Outage(read)) or live(lives, trial, pace, seed + 1)
    lives.end()
