"""Where the command line writes: results to standard output, everything else to standard error; tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from afl.kernel.control_characters import escaped_json, visible_controls

_UNLIMITED = 10_000


class SafeConsole(Console):
    """Control characters in texts are shown and not obeyed; styles are no part of the texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(visible_controls(each.text), each.style)


def errors() -> Console:
    """A console on the current standard error, which may have been redirected."""
    return SafeConsole(stderr=True, highlight=False, soft_wrap=True)


def output() -> Console:
    """Standard output; what goes to a file or a pipe is never cut or folded."""
    console = SafeConsole(highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console


def print_json(value: Any) -> None:
    """A result."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(escaped_json(json.dumps(value, indent=2, ensure_ascii=not plain)))


def write(text: str) -> None:
    """A text that is a result: as it is into a file or a pipe, without control characters to a terminal."""
    sys.stdout.write(visible_controls(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def say(text: str | Text, style: str = "") -> None:
    """A message to the person."""
    errors().print(text if isinstance(text, Text) else Text(text), style=style)


def can_ask() -> bool:
    """Whether there is somebody at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def duration(milliseconds: float) -> str:
    """A duration as people read it."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


COLORS = {
    "created": "cyan",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "paused": "yellow",
    "pending": "yellow",
    "ignored": "dim",
    "canceled": "dim",
}
_GAP = "  "


class Table:
    """Rows below a heading. Columns named in `below` move to a second line, the last one first, until the rest fits."""

    def __init__(self, *columns: str, below: Iterable[str] = ()) -> None:
        self._columns = columns
        self._below = {columns.index(name) for name in below}
        self._rows: list[list[Text]] = []

    def add(self, *cells: str | Text) -> None:
        """One more row."""
        self._rows.append(
            [cell if isinstance(cell, Text) else Text(visible_controls(cell)) for cell in cells]
        )

    def print(self, console: Console) -> None:
        """Print it; a column in which nothing stands is left out, unless it has a heading."""
        every = [number for number, name in enumerate(self._columns) if name or self._used(number)]
        heading = [Text(name, "bold") for name in self._columns]
        lines = [heading, *self._rows]
        widths = {number: max(line[number].cell_len for line in lines) for number in every}
        beside = self._beside(every, widths, console.width)
        for line in lines:
            console.print(_joined(line, beside, widths), soft_wrap=True)
            details = Text(_GAP).join(line[each] for each in every if each not in beside and line[each])
            if details:
                console.print(Padding.indent(details, len(_GAP)))

    def _beside(self, every: list[int], widths: dict[int, int], room: int) -> list[int]:
        beside = list(every)
        for number in sorted(self._below.intersection(every), reverse=True):
            if sum(widths[each] for each in beside) + len(_GAP) * (len(beside) - 1) <= room:
                break
            beside.remove(number)
        return beside

    def _used(self, number: int) -> bool:
        return any(row[number].plain for row in self._rows)


def _joined(line: list[Text], numbers: list[int], widths: dict[int, int]) -> Text:
    text = Text()
    for number in numbers:
        text.append_text(line[number]).append(" " * (widths[number] - line[number].cell_len) + _GAP)
    text.rstrip()
    return text


def state_text(state: str, extra: str = "") -> Text:
    """A state in its color; `extra` says more about it."""
    return Text(f"{state} ({extra})" if extra else state, COLORS.get(state, ""))


def shortened(text: str, width: int = 60) -> str:
    """The first line of a text, cut."""
    line = text.partition("\n")[0]
    return line if len(line) <= width else f"{line[: width - 1]}…"
