"""A table whose rows come anew every second while the cursor stays where the person put it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import on
from textual.message import Message
from textual.widgets import DataTable

Row = tuple[str, tuple[Text | str, ...]]


class Rows(DataTable[Text | str]):
    """Rows with a key each; says which one the cursor is on when that changes."""

    class Chosen(Message):
        """The cursor is on another row; an empty key when there are none."""

        def __init__(self, rows: Rows, key: str) -> None:
            super().__init__()
            self.rows = rows
            self.key = key

        @property
        def control(self) -> Rows:
            return self.rows

    def __init__(self, *columns: str, id: str) -> None:
        super().__init__(
            id=id, cursor_type="row", zebra_stripes=True, cursor_foreground_priority="renderable"
        )
        self._titles = columns
        self._keys: list[str] = []
        self._before: list[Row] = []
        self.chosen = ""

    def on_mount(self) -> None:
        for title in self._titles:
            self.add_column(title, key=title)

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the rows, in their order."""
        return self._keys

    def show(self, rows: Sequence[Row], chosen: str = "") -> None:
        """Put these rows in place of the others; the cursor stays on its row, or goes to `chosen`."""
        keys = [key for key, _ in rows]
        # Where the cursor is now, and not what was told of it: a key may have moved it this very moment.
        wanted = chosen if chosen in keys else self._under_cursor()
        if keys == self._keys:
            for row, before in zip(rows, self._before, strict=True):
                if row != before:
                    for title, cell in zip(self._titles, row[1], strict=True):
                        self.update_cell(row[0], title, cell, update_width=True)
        else:
            self.clear()
            for key, cells in rows:
                self.add_row(*cells, key=key)
            self._keys = keys
        self._before = list(rows)
        place = keys.index(wanted) if wanted in keys else 0
        if keys and self.cursor_row != place:
            self.move_cursor(row=place)
        self._tell(keys[place] if keys else "")

    @on(DataTable.RowHighlighted)
    def _moved(self, event: DataTable.RowHighlighted) -> None:
        """While rows are put in place the cursor passes over others: only where it is now counts."""
        event.stop()
        self._tell(self._under_cursor())

    def _under_cursor(self) -> str:
        return self._keys[self.cursor_row] if 0 <= self.cursor_row < len(self._keys) else ""

    def _tell(self, key: str) -> None:
        if key != self.chosen:
            self.chosen = key
            self.post_message(self.Chosen(self, key))
