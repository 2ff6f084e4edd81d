"""Tables of one part of AgentFlow, and how they came to be.

A Schema is a folder of package data: `schema.sql` makes the tables as they are now,
`migrations/NNNN_name.sql` leads there step by step from an empty store: the file numbered `base` makes the first
tables, each later one changes them. A part that has not changed since its base has no migrations. Where one dialect
needs its own text, a file `schema.sqlite.sql` or `0002_name.postgres.sql` takes the place of the common one. The
table `afl_schema` holds the version of a store. Migrations of versions that no release keeps are removed by raising
`base`; stores older than that are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from afl.kernel.database.dialect import Dialect, statements
from afl.kernel.database.queries import Query
from afl.kernel.errors import InputError
from afl.kernel.package_files import package_folder

_MIGRATION = re.compile(r"(\d{4})_\w+(?:\.(sqlite|postgres))?\.sql")


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one part: a folder in a package. `component`, its name in the store, never changes."""

    package: str
    folder: str = "sql"
    component: str = ""
    base: int = 1

    @property
    def name(self) -> str:
        return self.component or self.package.removeprefix("afl.")

    def fresh(self, dialect: Dialect) -> tuple[Query, ...]:
        """The statements that make everything at once."""
        return self._read(self._choose(self._root(), "schema", dialect), dialect)

    def migrations(self, dialect: Dialect) -> dict[int, tuple[Query, ...]]:
        """Number -> statements, in order."""
        folder = self._root().joinpath("migrations")
        return {
            number: self._read(self._choose(folder, stem, dialect), dialect)
            for number, stem in self._stems().items()
        }

    @property
    def version(self) -> int:
        """The version of a store that is up to date: the last migration's number, `base` without any."""
        return max(self._stems(), default=self.base)

    def _root(self) -> Path:
        return package_folder(self.package) / self.folder

    def _stems(self) -> dict[int, str]:
        """Number -> name of a migration without its dialect, in order."""
        folder = self._root().joinpath("migrations")
        found: dict[int, set[str]] = {}
        for entry in folder.iterdir() if folder.is_dir() else ():
            match = _MIGRATION.fullmatch(entry.name)
            if match is None:
                raise InputError(
                    f"{self.package}/{self.folder}/migrations/{entry.name} is not named NNNN_name.sql"
                )
            found.setdefault(int(match[1]), set()).add(entry.name.split(".")[0])
        numbers = list(range(self.base, self.base + len(found)))
        if sorted(found) != numbers or any(len(names) > 1 for names in found.values()):
            raise InputError(
                f"{self.package}/{self.folder}/migrations must count {self.base:04}, {self.base + 1:04}, ... "
                "without gap or twin"
            )
        return {number: found[number].pop() for number in sorted(found)}

    def _choose(self, folder: Path, stem: str, dialect: Dialect) -> Path:
        for name in (f"{stem}.{dialect}.sql", f"{stem}.sql"):
            if folder.joinpath(name).is_file():
                return folder.joinpath(name)
        raise InputError(f"{self.package}/{self.folder} has no {stem}.sql for {dialect}")

    def _read(self, source: Path, dialect: Dialect) -> tuple[Query, ...]:
        return _statements(f"{self.name}/{source.name}", source.read_text("utf-8"), dialect, self.package)


@cache  # a process may open many stores; parsing takes twice as long as making the tables
def _statements(name: str, script: str, dialect: Dialect, package: str) -> tuple[Query, ...]:
    return tuple(
        Query(
            f"{name} statement {number}",
            sqlite=statement if dialect == "sqlite" else None,
            postgres=statement if dialect == "postgres" else None,
            where=package,
        )
        for number, statement in enumerate(statements(script), start=1)
    )
