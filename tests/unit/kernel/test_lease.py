"""Who may take what: the policy of holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from afl.kernel.lease import LEASE_MS, RUN_LEASE_MS, Hold, first_hold, is_free
from afl.kernel.presence import Life

times = st.integers(0, 2**50)
lives = st.sampled_from(Life)


def test_the_lease_of_the_design() -> None:
    assert (LEASE_MS, RUN_LEASE_MS) == (60_000, 10_000)


def test_a_hold_ends_after_its_last_millisecond() -> None:
    hold = first_hold("me", 1000)
    assert hold == Hold("me", 1, 61_000)
    assert [hold.ended(now) for now in (1000, 61_000, 61_001)] == [False, False, True]


def test_it_is_renewed_when_a_third_has_passed() -> None:
    hold = first_hold("me", 0)
    assert [hold.due(now) for now in (0, 19_999, 20_000, 90_000)] == [False, False, True, True]
    assert hold.renewed(20_000) == Hold("me", 1, 80_000)


def test_a_renewal_never_shortens() -> None:
    assert Hold("me", 3, 90_000).renewed(1000).until == 90_000


@given(times, times, lives)
def test_only_death_or_time_frees_and_life_extends_nothing(until: int, now: int, life: Life) -> None:
    assert is_free(Hold("other", 1, until), now, life) == (now > until or life is Life.DEAD)


@given(times, lives)
def test_what_nobody_holds_is_free(now: int, life: Life) -> None:
    assert is_free(None, now, life)


@given(st.integers(0, 2**40), times, times)
def test_whoever_takes_over_fences_the_last(epoch: int, until: int, now: int) -> None:
    taken = Hold("old", epoch, until).taken_by("new", now)
    assert taken == Hold("new", epoch + 1, now + LEASE_MS)
    assert not is_free(taken, now)
