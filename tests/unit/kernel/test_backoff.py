"""Backoff grows by its factor up to its cap; jitter stays below that."""

from __future__ import annotations

import math
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.kernel.backoff import Backoff
from afl.kernel.errors import InputError


def test_doubles_up_to_the_cap() -> None:
    assert list(islice(Backoff(1, cap=30).delays(), 7)) == [1, 2, 4, 8, 16, 30, 30]


def test_a_factor_of_one_is_constant() -> None:
    assert [Backoff(3, factor=1).delay(n) for n in (1, 2, 1000)] == [3, 3, 3]


def test_many_attempts_do_not_overflow() -> None:
    assert Backoff(0.1, cap=60).delay(1_000_000) == 60
    assert Backoff(0.1).delay(1_000_000) == math.inf
    assert Backoff(0).delay(1_000_000) == 0


@given(st.integers(1, 5000), st.integers())
def test_full_jitter_lies_between_nothing_and_the_plain_delay(attempt: int, seed: int) -> None:
    backoff = Backoff(0.25, factor=1.7, cap=90)
    assert 0 <= backoff.delay(attempt, Random(seed)) <= backoff.delay(attempt)


def test_the_same_source_of_chance_gives_the_same_delays() -> None:
    backoff = Backoff(1, cap=10)
    first, again, other = (list(islice(backoff.delays(Random(seed)), 5)) for seed in (1, 1, 2))
    assert first == again != other


@given(st.floats(0, 1e6), st.floats(1, 10), st.floats(0, 1e9), st.integers(1, 2000))
def test_delays_never_shrink(base: float, factor: float, cap: float, attempt: int) -> None:
    backoff = Backoff(base, factor, cap)
    assert backoff.delay(attempt) <= backoff.delay(attempt + 1) <= cap


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"base": -1}, "base"),
        ({"base": math.nan}, "base"),
        ({"base": math.inf}, "base"),
        ({"base": 1, "factor": 0.5}, "factor"),
        ({"base": 1, "cap": -1}, "cap"),
    ],
)
def test_bad_numbers_are_refused_by_name(arguments: dict[str, float], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Backoff(**arguments)


def test_attempts_are_counted_from_one() -> None:
    with pytest.raises(InputError, match="counted from 1"):
        Backoff(1).delay(0)
