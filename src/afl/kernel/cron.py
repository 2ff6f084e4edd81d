"""Cron expressions: which wall-clock times match, and when the next one comes in a time zone.

Five fields are `minute hour day month weekday`; six begin with seconds; seven end with a year. `*`, `a-b`,
`a,b`, `/n`, `?` for any day or weekday, English names, and `@hourly @daily @midnight @weekly @monthly
@yearly @annually` are understood. Weekdays count from Sunday = 0 to Saturday = 6; 7 is Sunday too.

When both day and weekday are restricted, five fields match either, as in every Unix cron; six and seven
match both, as the fleet's expressions always did.

Clock changes. An expression that does not match every hour names times of the day: one that a day lacks
(clocks went forward) comes at the first moment after the gap, and one that a day has twice (clocks went
back) comes once, the first time. An expression that matches every hour is a rhythm: it follows what the
clock shows, through both passes of a repeated hour, and a missing hour is missing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from afl.kernel.errors import ScheduleError

_STEP = re.compile(r"(?P<range>[^/]+)(?:/(?P<step>[0-9]+))?")
_MONTHS = "january february march april may june july august september october november december"
_WEEKDAYS = "sunday monday tuesday wednesday thursday friday saturday"


def _numbered(names: str, first: int) -> dict[str, int]:
    """Full names and their first three letters."""
    return {text: number for number, name in enumerate(names.split(), first) for text in (name, name[:3])}


@dataclass(frozen=True, slots=True)
class Field:
    """The rules of one field."""

    name: str
    least: int
    most: int
    names: dict[str, int] = field(default_factory=dict)
    wraps: bool = False  # the number after the last is the first again: weekday 7 is 0
    blank: bool = False  # `?` means any

    def parse(self, text: str) -> frozenset[int]:
        """Every number the field matches; ScheduleError names the field and what it expects."""
        if self.blank and text == "?":
            text = "*"
        numbers: set[int] = set()
        for part in text.split(","):
            numbers |= self._part(part, text)
        return frozenset(numbers)

    @property
    def everything(self) -> frozenset[int]:
        return frozenset(range(self.least, self.most + 1))

    def _part(self, part: str, text: str) -> set[int]:
        match = _STEP.fullmatch(part)
        if not match:
            raise self._error(text, f"{part!r} is not a number, range or step")
        step = int(match["step"] or 1)
        if not step:
            raise self._error(text, "a step of 0 never ends")
        low, high = self._range(match["range"], match["step"] is not None, text)
        numbers = range(low, high + 1, step)
        span = self.most - self.least + 1
        return {number - span if self.wraps and number > self.most else number for number in numbers}

    def _range(self, text: str, stepped: bool, whole: str) -> tuple[int, int]:
        if text == "*":
            return self.least, self.most
        first, dash, last = text.partition("-")
        low = self._number(first, whole)
        # `5/15` is short for "from 5 on, every 15".
        high = self._number(last, whole) if dash else (self.most if stepped else low)
        if low > high and self.wraps and high == self.least:
            high = self.most + 1  # fri-sun: Sunday closes the week
        if low > high:
            raise self._error(whole, f"{text!r} runs backwards")
        return low, high

    def _number(self, text: str, whole: str) -> int:
        number = self.names.get(text.lower())
        if number is None and re.fullmatch(r"[0-9]{1,4}", text):
            number = int(text)
        if number is None or not self.least <= number <= self.most + self.wraps:
            raise self._error(whole, f"{text!r} is not among {self._allowed()}")
        return number

    def _allowed(self) -> str:
        names = [name for name in self.names if len(name) == 3]
        return f"{self.least}-{self.most}" + (f" or {names[0]}-{names[-1]}" if names else "")

    def _error(self, text: str, problem: str) -> ScheduleError:
        return ScheduleError(f"{self.name} field {text!r}: {problem}")


SECOND = Field("second", 0, 59)
MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day", 1, 31, blank=True)
MONTH = Field("month", 1, 12, names=_numbered(_MONTHS, 1))
WEEKDAY = Field("weekday", 0, 6, names=_numbered(_WEEKDAYS, 0), wraps=True, blank=True)
YEAR = Field("year", 1970, 2100)


_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
MAX_CHARACTERS = 1_000
_YEARS_AHEAD = 40  # 29 February on a given weekday comes at least every 40 years, even around 2100
_FIELDS = {
    5: (MINUTE, HOUR, DAY, MONTH, WEEKDAY),
    6: (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY),
    7: (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR),
}
_LONGEST_ZONE = 100
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression; make one with `Cron.parse`."""

    text: str
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    years: frozenset[int]  # empty: any
    both_days: bool  # a day must match `days` and `weekdays`; otherwise either will do

    @classmethod
    def parse(cls, text: str) -> Cron:
        """ScheduleError says which field is wrong and why; one that can never match is wrong too."""
        if len(text) > MAX_CHARACTERS:
            raise ScheduleError(
                f"a cron expression has at most {MAX_CHARACTERS:,} characters, this one {len(text):,}"
            )
        words = _MACROS.get(text.strip().lower(), text).split()
        if len(words) not in _FIELDS:
            count = f"{len(words)} field{'s' if len(words) != 1 else ''}"
            raise ScheduleError(f"cron {text!r} has {count}; expected 5, 6 (seconds first) or 7 (year last)")
        named = {rule.name: word for rule, word in zip(_FIELDS[len(words)], words, strict=True)}
        try:
            sets = {rule.name: rule.parse(named[rule.name]) for rule in _FIELDS[len(words)]}
        except ScheduleError as error:
            raise ScheduleError(f"cron {text!r}: {error}") from error
        cron = cls(
            text=text,
            seconds=tuple(sorted(sets.get("second", {0}))),
            minutes=tuple(sorted(sets["minute"])),
            hours=tuple(sorted(sets["hour"])),
            days=sets["day"],
            months=sets["month"],
            weekdays=sets["weekday"],
            years=sets.get("year", frozenset()),
            # As in every Unix cron, `*/2` leaves a field unrestricted in this one respect.
            both_days=len(words) > 5 or named["day"][0] in "*?" or named["weekday"][0] in "*?",
        )
        if cron._first_day(date(min(cron.years, default=2000), 1, 1)) is None:
            raise ScheduleError(f"cron {text!r} never matches: there is no such day")
        return cron

    @property
    def is_rhythm(self) -> bool:
        """Whether it matches every hour, and so is no time of the day."""
        return len(self.hours) == 24

    def next_after(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The first match strictly after a moment, in UTC; None when no year is left."""
        start = moment.astimezone(UTC).replace(microsecond=0) + _SECOND
        return self._first_beat(start, zone) if self.is_rhythm else self._first_time(start, zone)

    def last_until(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The last match at or before a moment, in UTC; None when there was none for 40 years."""
        late = moment.astimezone(UTC).replace(microsecond=0)
        step = timedelta(minutes=1)
        while not self._matches_within(late - step, late, zone):
            if step.days > 366 * _YEARS_AHEAD:
                return None
            step *= 2
        early = late - step  # matches lie in (early, late]: halve it until it holds only the last one
        while late - early > _SECOND:
            middle = (early + (late - early) / 2).replace(microsecond=0)
            if self._matches_within(middle, late, zone):
                early = middle
            else:
                late = middle
        return late

    def _matches_within(self, after: datetime, until: datetime, zone: tzinfo) -> bool:
        found = self.next_after(after, zone)
        return found is not None and found <= until

    def _first_time(self, start: datetime, zone: tzinfo) -> datetime | None:
        """Times of the day: every matching wall-clock time comes exactly once."""
        wall = self._first_wall(start.astimezone(zone).replace(tzinfo=None))
        while wall is not None:
            instant = _instant(wall, zone)
            if instant >= start:
                return instant
            wall = self._first_wall(wall + _SECOND)  # in the second pass of a repeated hour
        return None

    def _first_beat(self, start: datetime, zone: tzinfo) -> datetime | None:
        """A rhythm: whatever the clock shows, as long as it is not set; then go on from there."""
        while True:
            offset = _offset(start, zone)
            wall = self._first_wall(start.replace(tzinfo=None) + offset)
            if wall is None:
                return None
            instant = (wall - offset).replace(tzinfo=UTC)
            if _offset(instant, zone) == offset:
                return instant
            start = _change(start, instant, zone)

    def _first_wall(self, start: datetime) -> datetime | None:
        """The first matching wall-clock time at or after another."""
        day = self._first_day(start.date())
        if day == start.date():
            clock = self._first_clock(start.time())
            if clock is not None:
                return datetime.combine(day, clock)
            day = self._first_day(day + _DAY)
        return None if day is None else datetime.combine(day, self._clock(self.hours[0], self.minutes[0]))

    def _first_clock(self, start: time) -> time | None:
        for hour in self.hours[bisect_left(self.hours, start.hour) :]:
            if hour > start.hour:
                return self._clock(hour, self.minutes[0])
            for minute in self.minutes[bisect_left(self.minutes, start.minute) :]:
                if minute > start.minute:
                    return self._clock(hour, minute)
                if start.second <= self.seconds[-1]:
                    return time(hour, minute, self.seconds[bisect_left(self.seconds, start.second)])
        return None

    def _clock(self, hour: int, minute: int) -> time:
        return time(hour, minute, self.seconds[0])

    def _first_day(self, day: date) -> date | None:
        last_year = min(day.year + _YEARS_AHEAD, 9998, max(self.years, default=9998))
        while day.year <= last_year:
            if self.years and day.year not in self.years:
                day = date(day.year + 1, 1, 1)
            elif day.month not in self.months:
                day = (day.replace(day=1) + 31 * _DAY).replace(day=1)
            elif self._is_day(day):
                return day
            else:
                day += _DAY
        return None

    def _is_day(self, day: date) -> bool:
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month and in_week if self.both_days else in_month or in_week


def zone_named(name: str) -> ZoneInfo:
    """The time zone of an IANA name such as `Europe/Vienna`."""
    if len(name) > _LONGEST_ZONE:
        raise ScheduleError(f"no time zone has a name of {len(name):,} characters")
    try:
        return ZoneInfo(name)
    except (
        ZoneInfoNotFoundError,
        ValueError,
        OSError,
    ) as error:  # a bad name is a path to elsewhere, or a folder
        raise ScheduleError(
            f"no time zone {name!r}; expected an IANA name such as 'Europe/Vienna'"
        ) from error


def _instant(wall: datetime, zone: tzinfo) -> datetime:
    """When a clock first shows a time; when it jumps over it, the moment of the jump."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == wall:
        return instant
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _change(before, instant, zone)


def _change(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The first moment with another offset than `before`, which `after` has."""
    offset = _offset(before, zone)
    while after - before > _SECOND:
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if _offset(middle, zone) == offset:
            before = middle
        else:
            after = middle
    return after


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)
