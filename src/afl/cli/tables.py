"""Tables: aligned columns, coloured on a terminal, plain elsewhere."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

COLOURS = {
    "created": "cyan",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "paused": "yellow",
    "cancelled": "dim",
    "pending": "yellow",
    "ignored": "dim",
    "canceled": "dim",
}


def table(*columns: str) -> Table:
    """An empty table with a heading."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def state_text(state: str, extra: str = "") -> Text:
    """A state in its colour; `extra` says more about it."""
    return Text(f"{state} ({extra})" if extra else state, COLOURS.get(state, ""))


def shortened(text: str, width: int = 60) -> str:
    """The first line of a text, cut."""
    line = text.partition("\n")[0]
    return line if len(line) <= width else f"{line[: width - 1]}…"
