"""A breaker's configuration is checked when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from afl.coordination.breaker_config import BreakerMode, CircuitBreakerConfig
from afl.coordination.errors import BreakerInputError
from afl.kernel.errors import InputError


def test_defaults() -> None:
    config = CircuitBreakerConfig()
    assert (config.failure_threshold, config.half_open_max_calls, config.success_threshold) == (5, 3, 2)
    assert (config.timeout_seconds, config.recovery_timeout_seconds) == (60, 300)
    assert config.mode is BreakerMode.CONSECUTIVE


def test_floats_are_accepted_and_no_time_becomes_nothing() -> None:
    counted = CircuitBreakerConfig(timeout_seconds=0.1, recovery_timeout_seconds=0.0001).milliseconds()
    assert (counted["timeout"], counted["recovery"]) == (100, 1)


def test_a_threshold_that_could_never_be_met_is_refused() -> None:
    with pytest.raises(
        BreakerInputError, match=r"success_threshold is 4 and half_open_max_calls 3.*never close"
    ):
        CircuitBreakerConfig(success_threshold=4)


@pytest.mark.parametrize(
    "bad",
    [
        {"failure_threshold": 0},
        {"failure_threshold": 2.5},
        {"failure_threshold": True},
        {"half_open_max_calls": -1},
        {"success_threshold": "2"},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("nan")},
        {"recovery_timeout_seconds": -1},
        {"window_seconds": float("inf")},
        {"failure_rate": 1.5},
        {"slot_lease_seconds": "ten"},
        {"mode": "sometimes"},
    ],
    ids=str,
)
def test_a_bad_value_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"^{next(iter(bad))} is "):
        CircuitBreakerConfig(**bad)


def test_the_mode_may_be_a_word() -> None:
    assert CircuitBreakerConfig(mode="window").plain()["mode"] == "window"  # type: ignore[arg-type]
