"""Named queries: SQL lives in `.sql` files beside the code that uses it.

`shared.sql` holds what every dialect understands, `sqlite.sql` and `postgres.sql` replace or add single
queries. A query starts at a line `-- name: claim_tasks` and is one statement with `:name` parameters and
`{macros}`. What several queries of a file have in common stands once, below a line `-- part: of_index`, and is
inserted where a query says `{part:of_index}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from afl.kernel.database.dialect import Dialect, positional, render, rewrite_code, statements
from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name
from afl.kernel.package_files import package_folder

_HEAD = re.compile(r"^--\s*(name|part):\s*(\S+)\s*$", re.MULTILINE)
_PART = re.compile(r"\{part:(\w*)\}")


class Query:
    """One named statement, ready for each driver. For a dialect it was not written for it has no text."""

    __slots__ = (
        "lists",
        "name",
        "now",
        "parameters",
        "postgres",
        "sqlite",
        "sqlite_places",
        "sqlite_positional",
    )

    name: str
    sqlite: str
    sqlite_positional: (
        str  # with a `?` for each of `sqlite_places`, which are parameters, or "now" for the clock
    )
    sqlite_places: tuple[str, ...]
    postgres: str
    parameters: tuple[str, ...]
    lists: tuple[str, ...]
    now: bool

    def __init__(self, name: str, *, sqlite: str | None, postgres: str | None, where: str = "query") -> None:
        self.name = name
        self.parameters, self.lists, self.now = (), (), False
        if postgres is not None:
            rendered = render(_single(postgres, name, where), "postgres", f"{where}, query {name}")
            self.postgres, self.parameters = rendered.text, rendered.parameters
        if sqlite is not None:
            rendered = render(_single(sqlite, name, where), "sqlite", f"{where}, query {name}")
            self.sqlite, self.parameters = rendered.text, rendered.parameters
            self.lists, self.now = rendered.lists, rendered.now
            self.sqlite_positional, self.sqlite_places = positional(rendered)

    @classmethod
    def of(cls, sql: str, *, name: str = "unnamed") -> Query:
        """A query from text in the code: for tests and one-off statements that every dialect understands."""
        return cls(name, sqlite=sql, postgres=sql)

    def __getattr__(self, missing: str) -> str:
        if missing in ("sqlite", "sqlite_positional", "sqlite_places", "postgres"):
            dialect = missing.partition("_")[0]
            raise InputError(
                f"query {self.name} has no text for {dialect}: add it to {dialect}.sql or shared.sql"
            )
        raise AttributeError(missing)

    def __repr__(self) -> str:
        return f"<Query {self.name}>"


class Queries:
    """The queries of one folder as attributes: `Q.claim_tasks`.

    Each is made when it is first asked for: a command uses a dozen of a hundred, and making them takes a while.
    """

    def __init__(self, where: str, makers: dict[str, Callable[[], Query]]) -> None:
        self._where = where
        self._makers = makers

    def __getattr__(self, name: str) -> Query:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._makers:
            made = self._makers[name]()
            self.__dict__[name] = made
            return made
        names = list(self)
        close = near_name(name, names)
        hint = f"did you mean {close}?" if close else f"it has {', '.join(names) or 'none'}"
        raise AttributeError(f"no query {name!r} in {self._where}: {hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)


def queries(package: str, folder: str = "sql") -> Queries:
    """The named queries in a folder of a package's data."""
    root = package_folder(package) / folder
    texts: dict[str, dict[str, str]] = {}
    for kind in ("shared", "sqlite", "postgres"):
        source = root.joinpath(f"{kind}.sql")
        if source.is_file():
            texts[kind] = _blocks(source.read_text("utf-8"), f"{package}/{folder}/{kind}.sql")
    where = f"{package}/{folder}"
    if not texts:
        raise InputError(f"{where} has no shared.sql, sqlite.sql or postgres.sql")
    names = dict.fromkeys(name for blocks in texts.values() for name in blocks)
    return Queries(where, {name: partial(_query, name, texts, where) for name in names})


def _query(name: str, texts: dict[str, dict[str, str]], where: str) -> Query:
    def text(dialect: Dialect) -> str | None:
        return texts.get(dialect, {}).get(name) or texts.get("shared", {}).get(name)

    return Query(name, sqlite=text("sqlite"), postgres=text("postgres"), where=where)


def _blocks(text: str, where: str) -> dict[str, str]:
    """The queries of a file by name, with its parts in their places."""
    head, *rest = _HEAD.split(text)
    if statements(head):
        raise InputError(f"{where}: SQL before the first `-- name:` line")
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for kind, name, body in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if not name.isidentifier() or name.startswith("_"):
            raise InputError(f"{where}: {name!r} cannot be the name of a query")
        if name in found[kind]:
            raise InputError(f"{where}: two {'queries' if kind == 'name' else 'parts'} are named {name}")
        found[kind][name] = body if kind == "name" else rewrite_code(body, str).strip()

    def part(use: re.Match[str]) -> str:
        if use[1] not in found["part"]:
            raise InputError(
                f"{where}: there is no part {use[1]!r}; it has {', '.join(found['part']) or 'none'}"
            )
        return found["part"][use[1]]

    return {name: _PART.sub(part, body) for name, body in found["name"].items()}


def _single(sql: str, name: str, where: str) -> str:
    found = statements(sql)
    if len(found) != 1:
        raise InputError(f"{where}: query {name} must be one statement, it has {len(found)}")
    return found[0]
