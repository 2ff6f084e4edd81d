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
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from afl.kernel.database.dialect import Dialect
from afl.kernel.database.queries import Query, queries
from afl.kernel.database.scan import statements
from afl.kernel.errors import InputError, StoreVersionError

if TYPE_CHECKING:
    from afl.kernel.database.base import Database, Transaction

Q = queries("afl.kernel.database", "sql")
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

    def _root(self) -> Traversable:
        return files(self.package).joinpath(self.folder)

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

    def _choose(self, folder: Traversable, stem: str, dialect: Dialect) -> Traversable:
        for name in (f"{stem}.{dialect}.sql", f"{stem}.sql"):
            if folder.joinpath(name).is_file():
                return folder.joinpath(name)
        raise InputError(f"{self.package}/{self.folder} has no {stem}.sql for {dialect}")

    def _read(self, source: Traversable, dialect: Dialect) -> tuple[Query, ...]:
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


def ensure(database: Database, schema: Schema) -> None:
    """Bring the tables of a part to the version this code knows, whoever else does so at the same time."""
    wanted = schema.version
    if database.read(lambda tx: _version(tx, schema, wanted, database)) != wanted:
        database.write(lambda tx: _advance(tx, schema, database))


def is_made(database: Database, schema: Schema) -> bool:
    """Whether a store has the tables of a part, of whatever version: for those who only look, and make none."""
    return database.read(lambda tx: _version(tx, schema, schema.version, database)) > 0


def stored_versions(database: Database) -> dict[str, int]:
    """The version of each part's tables that a store has; nothing is made or brought forward."""

    def look(tx: Transaction) -> dict[str, int]:
        rows = tx.all(Q.schema_versions) if tx.one(Q.schema_table) is not None else []
        return {row["component"]: int(row["version"]) for row in rows}

    return database.read(look)


def replay(database: Database, schema: Schema) -> None:
    """Make the tables in an empty store by the migrations alone: what a test compares with the fresh ones."""
    database.write(lambda tx: _climb(tx, schema, database.dialect, 0))


def _advance(tx: Transaction, schema: Schema, database: Database) -> None:
    tx.all(Q.schema_lock)
    tx.run(Q.create_schema_table)
    dialect, wanted = database.dialect, schema.version
    version = _version(tx, schema, wanted, database)
    if version == wanted:
        return
    if version == 0:
        for statement in schema.fresh(dialect):
            tx.run(statement)
    else:
        _climb(tx, schema, dialect, version)
    tx.run(Q.set_schema_version, component=schema.name, version=wanted)


def _climb(tx: Transaction, schema: Schema, dialect: Dialect, version: int) -> None:
    for number, script in schema.migrations(dialect).items():
        if number > version:
            for statement in script:
                tx.run(statement)


def _version(tx: Transaction, schema: Schema, wanted: int, database: Database) -> int:
    if tx.one(Q.schema_table) is None:
        return 0
    row = tx.one(Q.schema_version, component=schema.name)
    version: int = row["version"] if row is not None else 0
    if version > wanted:
        raise StoreVersionError(
            f"{database!r} has version {version} of the tables of {schema.name!r}, this AgentFlow knows them "
            f"up to {wanted}; upgrade agentflow-afl here, or use another store"
        )
    if 0 < version < schema.base:
        raise StoreVersionError(
            f"{database!r} has version {version} of the tables of {schema.name!r}, made by an AgentFlow before its "
            f"first release; this one reads them from version {schema.base} on. Use a new store"
        )
    return version
