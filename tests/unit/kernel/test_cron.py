"""Cron: fields, days, errors, clock changes, and agreement with a naive search."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import tries

from afl.kernel.cron import Cron, zone_named
from afl.kernel.errors import ScheduleError

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday


def following(text: str, count: int, start: datetime = START, zone: ZoneInfo | None = None) -> list[str]:
    """The next matches, as wall-clock times with their offset."""
    found = []
    moment: datetime | None = start
    for _ in range(count):
        assert moment is not None
        moment = Cron.parse(text).next_after(moment, zone or UTC)
        assert moment is not None
        found.append(moment.astimezone(zone or UTC).isoformat())
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/20 * * * *", ["2026-01-01T00:20", "2026-01-01T00:40", "2026-01-01T01:00"]),
        ("5/20 3 * * *", ["2026-01-01T03:05", "2026-01-01T03:25", "2026-01-01T03:45"]),
        ("0 0 * * *", ["2026-01-02T00:00", "2026-01-03T00:00"]),
        ("30 2,14 * * *", ["2026-01-01T02:30", "2026-01-01T14:30"]),
        ("0 9 * * 1-5", ["2026-01-01T09:00", "2026-01-02T09:00", "2026-01-05T09:00"]),
        ("0 0 * * 0", ["2026-01-04T00:00", "2026-01-11T00:00"]),
        ("0 0 * * 7", ["2026-01-04T00:00", "2026-01-11T00:00"]),
        ("0 0 * * SUN", ["2026-01-04T00:00", "2026-01-11T00:00"]),
        ("0 0 * * fri-sun", ["2026-01-02T00:00", "2026-01-03T00:00", "2026-01-04T00:00", "2026-01-09T00:00"]),
        ("0 0 * * 5-7", ["2026-01-02T00:00", "2026-01-03T00:00", "2026-01-04T00:00", "2026-01-09T00:00"]),
        ("0 0 1 feb,Mar *", ["2026-02-01T00:00", "2026-03-01T00:00", "2027-02-01T00:00"]),
        ("0 0 31 * *", ["2026-01-31T00:00", "2026-03-31T00:00", "2026-05-31T00:00"]),
        ("0 0 29 2 *", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 0 13 * 5", ["2026-01-02T00:00", "2026-01-09T00:00", "2026-01-13T00:00"]),  # either
        ("0 0 */2 * 1", ["2026-01-05T00:00", "2026-01-19T00:00"]),  # a star is no restriction
        ("@weekly", ["2026-01-04T00:00"]),
        (" @Hourly ", ["2026-01-01T01:00", "2026-01-01T02:00"]),
        ("0 0 2 * * *", ["2026-01-01T02:00", "2026-01-02T02:00"]),  # six fields: seconds first
        ("0 0 0 13 * 5", ["2026-02-13T00:00", "2026-03-13T00:00"]),  # both
        ("0 0 0 ? * Mon", ["2026-01-05T00:00", "2026-01-12T00:00"]),
        ("0 0 0 1 1 * 2028-2030", ["2028-01-01T00:00", "2029-01-01T00:00", "2030-01-01T00:00"]),
    ],
)
def test_what_comes_next(text: str, expected: list[str]) -> None:
    assert following(text, len(expected)) == [f"{time}:00+00:00" for time in expected]


def test_seconds() -> None:
    assert following("*/30 * * * * *", 3)[:3] == [
        "2026-01-01T00:00:30+00:00",
        "2026-01-01T00:01:00+00:00",
        "2026-01-01T00:01:30+00:00",
    ]


def test_the_next_match_lies_strictly_after() -> None:
    cron = Cron.parse("0 0 * * *")
    assert cron.next_after(START) == START + timedelta(days=1)
    assert cron.next_after(START - timedelta(microseconds=1)) == START


def test_no_year_left() -> None:
    assert Cron.parse("0 0 0 1 1 * 2025").next_after(START) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("* * * *", "has 4 fields; expected 5, 6"),
        ("", "has 0 fields"),
        ("60 * * * *", "minute field '60': '60' is not among 0-59"),
        ("* 24 * * *", "hour field"),
        ("* * 0 * *", "day field '0': '0' is not among 1-31"),
        ("* * * 13 *", "month field '13': '13' is not among 1-12 or jan-dec"),
        ("* * * * 8", "weekday field '8': '8' is not among 0-6 or sun-sat"),
        ("* * * * noday", "weekday field"),
        ("*/0 * * * *", "a step of 0"),
        ("5-1 * * * *", "'5-1' runs backwards"),
        ("1,,2 * * * *", "minute field"),
        ("? * * * *", "minute field"),
        ("-1 * * * *", "minute field"),
        ("1/2/3 * * * *", "minute field"),
        ("٣ * * * *", "minute field"),
        ("0 0 30 2 *", "never matches: there is no such day"),
        ("@sometimes", "has 1 field;"),
    ],
)
def test_what_is_refused_and_why(text: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        Cron.parse(text)
    assert f"cron {text!r}" in str(caught.value) and message in str(caught.value)


@given(st.text(max_size=20) | st.text("0123456789*/-,? @", max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = Cron.parse(text).next_after(START)
    except ScheduleError:
        return
    assert found is None or found > START


@pytest.mark.parametrize("name", ["Mars/Base", "", "../etc/passwd", "Europe", "/etc/localtime"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ScheduleError, match="no time zone"):
        zone_named(name)


# Berlin 2026: on 29 March 02:00 becomes 03:00, on 25 October 03:00 becomes 02:00 again.


def test_a_time_in_the_gap_comes_at_its_end_once() -> None:
    assert following("15,45 2 * * *", 3, datetime(2026, 3, 28, 12, tzinfo=UTC), BERLIN) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:15:00+02:00",
        "2026-03-30T02:45:00+02:00",
    ]


def test_a_repeated_time_comes_the_first_time_only() -> None:
    assert following("30 2 * * *", 2, datetime(2026, 10, 24, 12, tzinfo=UTC), BERLIN) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]
    second_pass = datetime(2026, 10, 25, 1, 15, tzinfo=UTC)
    assert following("30 2 * * *", 1, second_pass, BERLIN) == ["2026-10-26T02:30:00+01:00"]


def test_a_rhythm_goes_on_through_clock_changes() -> None:
    assert following("*/30 * * * *", 3, datetime(2026, 3, 29, 0, 10, tzinfo=UTC), BERLIN) == [
        "2026-03-29T01:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T03:30:00+02:00",
    ]
    assert following("*/30 * * * *", 5, datetime(2026, 10, 24, 23, 40, tzinfo=UTC), BERLIN) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]


NUMBERS = [(0, 59), (0, 23), (1, 28), (1, 12), (0, 6)]


@st.composite
def expressions(draw: st.DrawFn) -> str:
    fields = []
    for low, high in NUMBERS:
        numbers = st.lists(st.integers(low, high), min_size=1, max_size=4).map(
            lambda found: ",".join(map(str, found))
        )
        fields.append(draw(st.just("*") | st.integers(1, 30).map(lambda step: f"*/{step}") | numbers))
    return " ".join(fields)


def naive_match(text: str) -> Callable[[datetime], bool]:
    """Whether a moment matches, by trying every value of every field."""

    def has(field: str, value: int, low: int) -> bool:
        if field.startswith("*/"):
            return (value - low) % int(field[2:]) == 0
        return field == "*" or str(value) in field.split(",")

    fields = text.split()
    minutes, hours, days, months, weekdays = (
        {value for value in range(60) if has(field, value, low)}
        for field, (low, _) in zip(fields, NUMBERS, strict=True)
    )
    starred = fields[2].startswith("*") or fields[4].startswith("*")

    def match(moment: datetime) -> bool:
        if moment.minute not in minutes or moment.hour not in hours or moment.month not in months:
            return False
        day, weekday = moment.day in days, moment.isoweekday() % 7 in weekdays
        return (day and weekday) if starred else (day or weekday)

    return match


@tries(100, deep=150)
@given(expressions(), st.integers(0, 525_600))
def test_next_agrees_with_trying_every_minute(text: str, minute: int) -> None:
    start = START + timedelta(minutes=minute)
    found = Cron.parse(text).next_after(start)
    assert found is not None
    tried = (start + timedelta(minutes=n) for n in range(1, 3000))
    matches = naive_match(text)
    expected = next((moment for moment in tried if matches(moment)), None)
    assert matches(found) and (expected == found if expected else found > start + timedelta(minutes=2999))


@tries(80, deep=150)
@given(
    expressions(),
    st.integers(0, 365 * 24 * 60),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
)
def test_the_last_match_is_the_one_whose_next_is_later(text: str, minute: int, name: str) -> None:
    moment, zone, cron = START + timedelta(minutes=minute), ZoneInfo(name), Cron.parse(text)
    last = cron.last_until(moment, zone)
    assert last is not None and last <= moment
    following_last = cron.next_after(last, zone)
    assert following_last is not None and following_last > moment
    assert cron.next_after(last - timedelta(seconds=1), zone) == last


@tries(60, deep=100)
@given(expressions(), st.integers(0, 3 * 24 * 60), st.sampled_from([(3, 28), (10, 24)]))
def test_every_match_shows_a_matching_clock_or_ends_a_gap(
    text: str, minute: int, day: tuple[int, int]
) -> None:
    start = datetime(2026, *day, tzinfo=UTC) + timedelta(minutes=minute)
    found = Cron.parse(text).next_after(start, BERLIN)
    assert found is not None and found > start
    end_of_gap = datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert naive_match(text)(found.astimezone(BERLIN)) or found == end_of_gap
