"""Searching runs in SQL: FTS5 in SQLite, a GIN index in PostgreSQL. Commits queue runs, and `index_runs` indexes them.

A word that is searched for is the beginning of a word of the run, and all of them must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from afl.kernel.database import Row, Schema, Transaction, queries
from afl.kernel.errors import StoreError
from afl.runtime.stores.search_words import BEGINNING, run_words, words_in
from afl.runtime.stores.sql_store.tables import LAST_CHARACTER, Tables

SCHEMA = Schema("afl.runtime.stores.sql_store", "sql/search", component="search")

Q = queries("afl.runtime.stores.sql_store", "sql/search")
_TOP = 2**62
_BATCH = 250
_ID_LENGTH = 8


class SearchTables(Tables):
    """The SearchStore protocol."""

    has_search = False

    def ensure_search(self) -> None:
        """Make the tables; an SQLite that was built without FTS5 has none, and searches the newest runs by reading."""
        if self.database.dialect == "postgres" or self.database.read(lambda tx: tx.one(Q.has_fts)):
            self.database.ensure(SCHEMA)
            self.has_search = True

    def index_runs(self, limit: int = 1_000) -> int:
        done = 0
        if not self.has_search or not self.database.select(Q.any_queued):
            return 0
        while done < limit:
            count = self.database.write(_index, durable=False)
            done += count
            if count < _BATCH:
                break
        return done

    def found_runs(self, text: str, most: int) -> Iterator[list[str]]:
        """The runs whose id begins with a text or that have its words, about newest first, so many at a time."""
        named = self._named(text.strip(), most)
        if named and len(text.strip()) >= _ID_LENGTH and not re.search(r"\s", text.strip()):
            yield named  # its words may be in every id
            return
        query = _query(words_in(text), self.database.dialect)
        below = _TOP
        while rows := self.database.select(Q.search, query=query, below=below, limit=most):
            yield [*named, *(row["workflow_id"] for row in rows)]
            if len(rows) < most:
                return
            named, below = [], rows[-1]["id"]
        if named:
            yield named

    def _named(self, start: str, most: int) -> list[str]:
        """The runs whose id begins so, or so in small letters."""
        found: dict[str, None] = {}
        for prefix in {start, start.lower()}:
            ranged = {"prefix": prefix, "beyond": prefix + LAST_CHARACTER}
            found |= dict.fromkeys(
                row["workflow_id"] for row in self.database.select(Q.named, limit=most, **ranged)
            )
        return list(found)

    def catch_up(self, most: int = 2_000) -> None:
        """Index what has been queued, as far as this process may write."""
        try:
            self.index_runs(most)
        except (
            StoreError
        ):  # a file that can only be read, or is being written to for long: search what there is
            return


def _query(words: list[str], dialect: str) -> str:
    if dialect == "sqlite":
        return " AND ".join(f'"{word}"{"*" * (len(word) >= BEGINNING)}' for word in words)
    return " & ".join(f"'{word}'{':*' * (len(word) >= BEGINNING)}" for word in words)


def _index(tx: Transaction) -> int:
    ids = [row["workflow_id"] for row in tx.all(Q.queued, limit=_BATCH)]
    if not ids:
        return 0
    tx.run(Q.unqueue, ids=ids)  # before the runs are read: what changes from now on is queued again
    found = [{"workflow_id": row["workflow_id"], "words": _words(row)} for row in tx.all(Q.texts, ids=ids)]
    if tx.dialect == "sqlite":
        tx.run(Q.remove_words, ids=ids)
        tx.many(Q.add_run, [{"workflow_id": each["workflow_id"]} for each in found])
    tx.many(Q.add_words, found)
    gone = sorted(set(ids) - {each["workflow_id"] for each in found})
    if gone:
        tx.run(Q.forget_runs, ids=gone)
    return len(ids)


def _words(row: Row) -> str:
    names = ("name", "tags", "inputs", "outputs", "error", "reason")
    return " ".join(
        run_words(row["workflow_id"], workflow=row["workflow_name"], **{name: row[name] for name in names})
    )
