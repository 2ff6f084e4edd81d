"""A table of settings: a dataclass whose fields are rows, each with its variable, default, kind and meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from afl.kernel.errors import SettingError
from afl.kernel.setting_kinds import Kind

T = TypeVar("T")
COLUMNS = (
    "| variable | in the file | default | value | meaning |",
    "|---|---|---|---|---|",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    variable: str
    default: Any
    kind: Kind
    doc: str
    section: str

    @property
    def key(self) -> str:
        """Where a configuration file has it: `lease_ms`, or `mongodb.url` for one of a section."""
        return f"{self.section}.{self.name.removeprefix(self.section + '_')}" if self.section else self.name

    def checked(self, value: Any, source: str) -> Any:
        """The value as its kind; SettingError names the source and what it expects."""
        try:
            return self.kind.read(value)
        except (ValueError, TypeError):
            # The cause is dropped on purpose: its text would quote the value, and the value may be a secret.
            text = f"{source} is {self.kind.show(value)}; expected {self.kind.expects}"
            raise SettingError(text) from None


def setting(variable: str, default: T, kind: Kind, doc: str, section: str = "") -> T:
    """A field of the table; typed as its value, which is what dataclasses make of it."""
    row = {"variable": variable, "kind": kind, "doc": doc, "section": section}
    field: T = dataclasses.field(default=default, metadata=row)
    return field


def rows_of(table: type[Any]) -> tuple[Setting, ...]:
    """The rows of a table."""
    return tuple(
        Setting(name=field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(table)
    )


def read_variables(rows: Iterable[Setting], environ: Mapping[str, str], where: str = "") -> dict[str, Any]:
    """The values that variables give, by name; an empty variable counts as unset."""
    return {
        row.name: row.checked(text, f"{where}{row.variable}")
        for row in rows
        if (text := environ.get(row.variable, "")) != ""
    }


def render_rows(rows: Iterable[Setting]) -> list[str]:
    """The rows as lines of a Markdown table."""
    lines = []
    for row in rows:
        default = f"`{row.default}`" if row.default not in ("", ()) else "(empty)"
        cells = (f"`{row.variable}`", f"`{row.key}`", default, row.kind.expects, row.doc)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return lines
