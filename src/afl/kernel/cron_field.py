"""One field of a cron expression: from `1-5,*/15` to the set of numbers it means."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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
            raise self._error(text, f"{part!r} is no number, range or step")
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
