"""Spans of time as people write and read them."""

from __future__ import annotations

import re

import pytest

from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError
from afl.operations.spans import DAY, HOUR, MINUTE, SECOND, ago, clock, date, left, read_span, span


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", 30 * DAY),
        ("12h", 12 * HOUR),
        ("1h30m", HOUR + 30 * MINUTE),
        ("1h 30m", HOUR + 30 * MINUTE),
        ("2W", 14 * DAY),
        ("45s", 45 * SECOND),
        ("5ms", 5),
    ],
)
def test_reading(text: str, expected: int) -> None:
    assert read_span(text) == expected


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1y", "1.5h", "soon"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(InputError, match=r"written like 30d, 12h, 45m or 1h30m, got"):
        read_span(text)


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (119_999, "1 min"),
        (3 * HOUR, "3 h"),
        (50 * HOUR, "2 d"),
        (-5, "0 ms"),
    ],
)
def test_saying(milliseconds: int, expected: str) -> None:
    assert span(milliseconds) == expected


def test_moments() -> None:
    now = wall_ms()
    assert re.fullmatch(r"\d\d:\d\d:\d\d", clock(now))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", clock(now - 3 * DAY))
    assert (date(0), ago(now - 2 * HOUR)) == ("", "2 h ago")


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (8 * HOUR, "8 h"),
        (8 * HOUR - 5_000, "7 h 59 min"),
        (59_000, "59 s"),
        (DAY + 2 * HOUR, "1 d 2 h"),
        (2 * DAY, "2 d"),
        (0, "0 ms"),
    ],
)
def test_time_that_is_left_is_not_rounded_to_hours(milliseconds: int, shown: str) -> None:
    assert left(milliseconds) == shown
