"""Spans of time, moments and amounts as people write and read them."""

from __future__ import annotations

import re
from datetime import datetime

from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
_UNITS = {"ms": 1, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_PART = re.compile(r"(\d+)(ms|[smhdw])")


def read_span(text: str) -> int:
    """Milliseconds of a text such as `30d`, `12h`, `90s` or `1h30m`."""
    written = text.strip().replace(" ", "").lower()
    if not re.fullmatch(rf"(?:{_PART.pattern})+", written):
        raise InputError(f"a span of time is written like 30d, 12h, 45m or 1h30m, got {text!r}")
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(written))


def span(milliseconds: float) -> str:
    """A span in one or two words: `3 h`, `12 min`, `45 s`; rounded down, since nobody plans by the rest."""
    for size, word in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if milliseconds >= size:
            return f"{int(milliseconds // size)} {word}"
    return f"{max(0, int(milliseconds))} ms"


def left(milliseconds: float) -> str:
    """A time that is left, to the minute: `7 h 59 min`; rounded to whole hours, 8 of them would look like 7 at once."""
    if milliseconds < HOUR:
        return span(milliseconds)
    large, small, words = (DAY, HOUR, ("d", "h")) if milliseconds >= DAY else (HOUR, MINUTE, ("h", "min"))
    whole, rest = divmod(int(milliseconds), large)
    return f"{whole} {words[0]} {rest // small} {words[1]}" if rest >= small else f"{whole} {words[0]}"


def ago(moment: int) -> str:
    """How long ago a moment of the wall clock was."""
    return f"{span(wall_ms() - moment)} ago"


def clock(moment: int) -> str:
    """A moment of the wall clock: the time of day if it is today, else with its date."""
    local = datetime.fromtimestamp(moment / 1000)
    today = datetime.fromtimestamp(wall_ms() / 1000).date() == local.date()
    return local.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def date(moment: int) -> str:
    """A moment of the wall clock with its date; empty for none."""
    return datetime.fromtimestamp(moment / 1000).strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def plural(amount: int, word: str, many: str = "") -> str:
    """`1 run`, `2 runs`."""
    return f"{amount:,} {word if amount == 1 else many or word + 's'}"
