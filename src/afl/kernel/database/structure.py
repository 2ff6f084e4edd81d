"""What tables a store has, in a form that can be compared: two stores with equal structure behave the same.

A test makes one store fresh and one by its migrations, and compares. The order of columns does not count.
"""

from __future__ import annotations

import re

from afl.kernel.database.base import Database
from afl.kernel.database.queries import queries
from afl.kernel.database.scan import pieces

Q = queries("afl.kernel.database", "sql")
_OWN = ("afl_schema", "afl_clock", "sqlite_")


def structure(database: Database) -> list[str]:
    """One line per column, constraint, index and trigger, sorted."""
    rows = database.select(Q.structure)
    if database.dialect == "postgres":
        return sorted(row["line"] for row in rows)
    return sorted(line for row in rows if not row["owner"].startswith(_OWN) for line in _lines(row["sql"]))


def _lines(sql: str) -> list[str]:
    """An SQLite definition in its parts, without the accidents of spacing, case and quoting."""
    text = "".join(_plain(part) if is_code else part.strip('"') for is_code, part in pieces(sql))
    text = re.sub(r" ?([(),=<>]) ?", r"\1", text).strip()
    if not text.startswith("create table"):
        return [text]
    head, _, rest = text.partition("(")
    body, _, options = rest.rpartition(")")
    return [f"{head}:{part}" for part in _split(body)] + [f"{head}:{options.strip()}"]


def _plain(code: str) -> str:
    return re.sub(r"\s+", " ", code).lower()


def _split(body: str) -> list[str]:
    """At commas outside brackets; a comma in a string literal may cut it, on both sides alike."""
    parts, depth = [""], 0
    for character in body:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
