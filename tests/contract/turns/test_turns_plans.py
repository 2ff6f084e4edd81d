"""On SQLite no statement of turns walks through what is done: everything goes by an index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from afl.kernel.database import connect, queries
from afl.kernel.errors import InputError
from afl.turns.store.tables import ensure_tables

FOLDERS = (
    "approvals",
    "cards",
    "heads",
    "inbox",
    "metrics",
    "open_calls",
    "outbox",
    "primitives",
    "resources",
    "stale_turns",
    "turn_queries",
)
NEWEST_FIRST = {"rows_of_agent", "latest_turns", "closed_approvals"}  # they stop after a page
SHORT_TABLES = {"waits"}  # what a turn waits for goes with the turn
RECURSIVE = {"waiting_ancestors"}  # what it found itself, row by row
_WALK = re.compile(
    r"SCAN \w+( USING INDEX sqlite_autoindex\w+)?$"  # a whole table
    r"|SEARCH state_agent_inbox USING INDEX sqlite_autoindex\w+ \(project_id=\?\)$"  # all messages of a project
)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = Path(tmp_path_factory.mktemp("plans")) / "afl.db"
    with connect(f"sqlite:///{path}") as database:
        ensure_tables(database)
    opened = sqlite3.connect(path)
    yield opened
    opened.close()


def statements() -> Iterator[tuple[str, str]]:
    packages = [("afl.turns.store", f"sql/{folder}") for folder in FOLDERS]
    for found in (*packages, ("afl.turns.orchestration", "sql"), ("afl.turns.worker", "sql")):
        named = queries(*found)
        for name in named:
            with suppress(InputError):  # of PostgreSQL alone
                yield name, getattr(named, name).sqlite


def walks(connection: sqlite3.Connection, text: str) -> list[str]:
    given = dict.fromkeys(re.findall(r":(\w+)", text), "1")
    plan = [row[3] for row in connection.execute(f"explain query plan {text}", given)]
    return [step for step in plan if _WALK.search(step)]


def test_nothing_that_is_done_is_walked_through(connection: sqlite3.Connection) -> None:
    found = {name: walks(connection, text) for name, text in statements()}
    assert len(found) > 80
    assert {name for name, steps in found.items() if steps} == NEWEST_FIRST | SHORT_TABLES | RECURSIVE


def test_a_walk_would_be_found(connection: sqlite3.Connection) -> None:
    assert walks(connection, "select * from state_outbox where status = 'failed'")
    assert walks(connection, "select * from state_agent_inbox where project_id = :p and status = 'queued'")
