"""On SQLite what is asked about a run, a step or the queue goes by an index, however many tasks there are."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from afl.kernel.errors import InputError, StoreConflict
from afl.runtime.entities import TaskDefinition
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.stores.sql_store.tables import Q

NEWEST_FIRST = {"get_all_tasks", "tasks_pulse"}  # they stop after a page
FILTERS = {"get_pending_tasks", "find_tasks"}  # whatever is asked for, and also what is over
COUNTS_ALL = {"count_events"}
DOCTOR = {"tasks_without_run", "tasks_without_step", "tasks_without_flow"}  # whoever looks for what is lost
ONE_ROW = {"run_pulse"}  # the step is of a table with one row, which it made by an index
OPEN_TASKS = ("afl_tasks_pending", "afl_tasks_running", "afl_tasks_special", "afl_tasks_elsewhere")
_SCAN = re.compile(r"SCAN (?:afl_tasks|[et])(?: USING (?:COVERING )?INDEX (\w+))?$")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = Path(tmp_path_factory.mktemp("plans")) / "afl.db"
    SqliteStore(f"sqlite:///{path}").close()
    opened = sqlite3.connect(path)
    yield opened
    opened.close()


def statements() -> Iterator[tuple[str, str]]:
    for name in Q:
        with suppress(InputError):  # of PostgreSQL alone
            text = getattr(Q, name).sqlite
            if "afl_tasks" in text:
                yield name, text


def walks(connection: sqlite3.Connection, text: str) -> list[str]:
    """The steps of a plan that read all tasks; an index of the open ones knows only a few."""
    given = dict.fromkeys(re.findall(r":(\w+)", text), "1")
    plan = [row[3] for row in connection.execute(f"explain query plan {text}", given)]
    found = [(step, _SCAN.match(step)) for step in plan]
    return [step for step, scan in found if scan and scan[1] not in OPEN_TASKS]


def test_no_statement_walks_through_what_is_over(connection: sqlite3.Connection) -> None:
    found = {name: walks(connection, text) for name, text in statements()}
    assert len(found) > 40
    known = NEWEST_FIRST | FILTERS | COUNTS_ALL | ONE_ROW | DOCTOR
    assert {name for name, steps in found.items() if steps} == known


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("ended_runs", "afl_runs_ended"),
        ("delete_loose_tasks", "afl_tasks_loose"),
        ("count_loose_tasks", "afl_tasks_loose"),
        ("delete_loose_logs", "afl_logs_runner"),
    ],
)
def test_what_is_old_is_found_without_looking_at_the_rest(
    connection: sqlite3.Connection, name: str, index: str
) -> None:
    text = getattr(Q, name).sqlite
    given = dict.fromkeys(re.findall(r":(\w+)", text), "1")
    plan = " ".join(row[3] for row in connection.execute(f"explain query plan {text}", given))
    assert re.search(rf"SEARCH \w+ USING (COVERING )?INDEX {index} \(", plan)
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize(
    ("name", "how"),
    [
        (
            "get_signal_tasks",
            r"SEARCH afl_tasks USING INDEX afl_tasks_elsewhere \(state=\? AND via=\? AND workflow_id=\?\)",
        ),
        (
            "get_receivable_of",
            r"SEARCH afl_signals USING (COVERING )?INDEX afl_signals_waiting \(workflow_id=\?\)",
        ),
        (
            "get_receivable_of",
            r"USING (COVERING )?INDEX afl_tasks_elsewhere \(state=\? AND via=\? AND workflow_id=\?\)",
        ),
        (
            "get_receivable",
            r"USING (COVERING )?INDEX afl_tasks_elsewhere \(state=\? AND via=\? AND workflow_id=\?\)",
        ),
        ("get_signals_named", r"afl_signals_waiting \(workflow_id=\? AND name=\? AND seq>\?\)"),
        ("count_unreceived", r"USING (COVERING )?INDEX afl_signals_waiting \(workflow_id=\? AND name=\?\)"),
    ],
)
def test_a_signal_and_its_task_are_found_without_looking_at_the_rest(
    connection: sqlite3.Connection, name: str, how: str
) -> None:
    text = getattr(Q, name).sqlite
    given = dict.fromkeys(re.findall(r":(\w+)", text), "1")
    plan = "; ".join(row[3] for row in connection.execute(f"explain query plan {text}", given))
    assert re.search(how, plan), plan


@pytest.mark.parametrize("column", ["workflow_id", "step_id"])
def test_a_walk_would_be_found(connection: sqlite3.Connection, column: str) -> None:
    """What belongs to no run or step is in no index, and so a query has to say that it does not ask for it."""
    assert walks(connection, f"select * from afl_tasks where {column} = :id")
    assert not walks(connection, f"select * from afl_tasks where {column} = :id and {column} <> ''")


@pytest.mark.parametrize(("belongs_to", "pages"), [({}, 3), ({"workflow_id": "run", "step_id": "step"}, 5)])
def test_what_a_new_task_writes(tmp_path: Path, belongs_to: dict[str, str], pages: int) -> None:
    """A page of the table, and one of each index it is in: whoever enqueues waits until all are on the disk."""
    store = SqliteStore(f"sqlite:///{tmp_path}/afl.db")
    log = tmp_path / "afl.db-wal"
    try:
        for uuid in ("before", "task"):
            size = log.stat().st_size
            given = {"runner_id": "r", "flow_id": "f", "workflow_id": "", "step_id": "", **belongs_to}
            store.save_task(TaskDefinition(uuid, "ns.F", **given))
        assert (log.stat().st_size - size) / (4096 + 24) == pages
    finally:
        store.close()


@pytest.mark.parametrize("wrong", [{"state": "done"}, {"hold": "later"}])
def test_words_that_are_none_of_ours_are_refused(tmp_path: Path, wrong: dict[str, str]) -> None:
    """Agents of other languages write into this table, and a state that nobody knows would never end."""
    store = SqliteStore(f"sqlite:///{tmp_path}/afl.db")
    try:
        with pytest.raises(StoreConflict, match="CHECK constraint failed"):
            store.save_task(replace(TaskDefinition("t", "ns.F", "", "", "", ""), **wrong))
        assert store.get_all_tasks() == []
    finally:
        store.close()
