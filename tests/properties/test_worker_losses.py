"""A worker whose process dies, or whose store loses a reply or a read: the record is the same."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.case import Case
from support.judging import Trial, check
from support.lives import Crash, Death, Lives, Outage
from support.lossy_store import LossyStore, drive_worker
from support.properties import tries
from support.random_workflows import cases
from support.telling_workflows import TELLING, telling

from afl.kernel.errors import StoreUnavailable
from afl.runtime.evaluation.pace import Pace

PACES = {
    "small": Pace(foreach_window=3, cached_steps=40),
    "usual": Pace(),
}
LOOPS = {
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
@pytest.mark.parametrize("name", LOOPS)
def test_a_death_before_every_write(name: str, pace: str) -> None:
    trial = Trial.of(LOOPS[name])
    for write in count(1):
        lives = Lives(kind=LossyStore)
        survived = live(lives, trial, PACES[pace], write, Death(write, after=False))
        assert survived or live(lives, trial, PACES[pace], write + 1)
        lives.end()
        if survived:
            assert write > 3
            return


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("name", LOOPS)
def test_a_commit_whose_reply_is_lost(name: str, pace: str, after: bool) -> None:
    trial = Trial.of(LOOPS[name])
    for lost in count(1):
        lives = Lives(kind=LossyStore)
        store = lives.next()
        assert isinstance(store, LossyStore)
        store.lost, store.after = lost, after
        check(trial, store, drive_worker(trial, store, Random(lost), PACES[pace]))
        lives.end()
        if store.commits < lost:
            assert lost > 1, "nothing was committed"
            return


@tries(90, deep=150)
@given(
    cases(), st.integers(0, 2**32), st.integers(1, 12), st.booleans(), st.sampled_from(list(PACES.values()))
)
def test_random_programs_outlive_a_lost_reply(
    case: Case, seed: int, lost: int, after: bool, pace: Pace
) -> None:
    trial, lives = Trial.of(case), Lives(kind=LossyStore)
    store = lives.next()
    assert isinstance(store, LossyStore)
    store.lost, store.after = lost, after
    check(trial, store, drive_worker(trial, store, Random(seed), pace))
    lives.end()


@tries(60, deep=100)
@given(cases(), st.integers(0, 2**32), st.integers(1, 40), st.sampled_from(list(PACES.values())))
def test_random_programs_outlive_a_read_that_fails(case: Case, seed: int, read: int, pace: Pace) -> None:
    trial, lives = Trial.of(case), Lives(kind=LossyStore)
    assert live(lives, trial, pace, seed, Outage(read)) or live(lives, trial, pace, seed + 1)
    lives.end()
