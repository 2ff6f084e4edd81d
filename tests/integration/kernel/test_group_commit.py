"""One commit for all who wait, and nobody pays for another's fault."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conversation import until
from notes_table import ADD, ids, make_notes

from afl.kernel.database import Database, Query, Transaction
from afl.kernel.database.sqlite import SqliteDatabase
from afl.kernel.database.sqlite_writer import Writer
from afl.kernel.errors import StoreConflict

Work = Callable[[Transaction], Any]


class Together:
    """Runs transitions so that one leads and all the others wait for it, in the order given."""

    def __init__(self, database: Database) -> None:
        assert isinstance(database, SqliteDatabase)
        self.database = database
        self.writer: Writer = database._file.writer
        self.outcomes: dict[int, Any] = {}
        self.commits: list[str] = []

    def run(self, *works: Work) -> dict[int, Any]:
        inside, go_on = threading.Event(), threading.Event()

        def lead(tx: Transaction) -> None:
            inside.set()
            go_on.wait()

        threads = [threading.Thread(target=self._call, args=(-1, lead))]
        threads[0].start()
        inside.wait()
        for number, work in enumerate(works):
            threads.append(threading.Thread(target=self._call, args=(number, work)))
            threads[-1].start()
            until(lambda number=number: len(self.writer._waiting) > number)  # type: ignore[misc]
        assert self.writer._connection is not None
        self.writer._connection.set_trace_callback(self._trace)
        go_on.set()
        for thread in threads:
            thread.join()
        return self.outcomes

    def _call(self, number: int, work: Work) -> None:
        try:
            self.outcomes[number] = self.database.write(work)
        except Exception as error:
            self.outcomes[number] = error

    def _trace(self, statement: str) -> None:
        if statement == "COMMIT":
            self.commits.append(statement)


@pytest.fixture
def together(sqlite: Database) -> Together:
    make_notes(sqlite)
    return Together(sqlite)


def add(number: int) -> Work:
    return lambda tx: tx.run(ADD, id=number, text="x") and number


def test_all_who_wait_share_one_commit(together: Together) -> None:
    outcomes = together.run(*(add(number) for number in range(1, 21)))
    assert [outcomes[number] for number in range(20)] == list(range(1, 21))
    assert ids(together.database) == list(range(1, 21))
    assert len(together.commits) == 2  # the leader's own, and one for the twenty


def test_a_transition_that_raises_loses_only_its_own(together: Together) -> None:
    def fails(tx: Transaction) -> None:
        tx.run(ADD, id=7, text="gone")
        raise LookupError("mine alone")

    outcomes = together.run(add(1), fails, add(2), lambda tx: tx.run(ADD, id=1, text="twin"), add(3))
    assert isinstance(outcomes[1], LookupError)
    assert isinstance(outcomes[3], StoreConflict)
    assert [outcomes[number] for number in (0, 2, 4)] == [1, 2, 3]
    assert ids(together.database) == [1, 2, 3]
    assert len(together.commits) == 2


def test_a_fault_that_shows_only_at_the_commit_hits_its_author_alone(together: Together) -> None:
    together.database.write(
        lambda tx: tx.run(
            Query.of(
                "create table child (id integer references notes (id) deferrable initially deferred) strict"
            )
        )
    )
    orphan = Query.of("insert into child (id) values (99)")
    outcomes = together.run(add(1), lambda tx: tx.run(orphan), add(2))
    assert (outcomes[0], outcomes[2]) == (1, 2)
    assert isinstance(outcomes[1], StoreConflict)
    assert ids(together.database) == [1, 2]


def test_when_sqlite_gives_up_the_transaction_the_others_still_succeed(together: Together) -> None:
    give_up = Query.of("insert or rollback into notes (id, text) values (1, 'twin')")
    outcomes = together.run(add(1), lambda tx: tx.run(give_up), add(2))
    assert (outcomes[0], outcomes[2]) == (1, 2)
    assert isinstance(outcomes[1], StoreConflict)
    assert ids(together.database) == [1, 2]


def test_an_interrupted_leader_leaves_the_rest_to_another(together: Together) -> None:
    runs = []

    def interrupted(tx: Transaction) -> None:
        runs.append(threading.current_thread())
        if len(runs) == 1:
            raise KeyboardInterrupt

    outcomes: dict[int, Any] = {}

    def run() -> None:
        outcomes.update(together.run(add(1), interrupted, add(2)))

    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        run()
    finally:
        threading.excepthook = hook
    # The first to wait led the group, was interrupted by its neighbor's transition, and was undone.
    assert 0 not in outcomes
    assert outcomes[2] == 2
    assert len(runs) == 2
    assert ids(together.database) == [2]


@pytest.mark.parametrize("way", ["write", "atomic", "not durable"])
def test_a_foreign_program_is_waited_for(sqlite_url: str, sqlite: Database, way: str) -> None:
    make_notes(sqlite)
    foreign = sqlite3.connect(
        sqlite_url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
    )
    foreign.execute("BEGIN IMMEDIATE")
    foreign.execute("insert into notes (id, text) values (1, 'foreign')")
    ways: dict[str, Callable[[], object]] = {
        "write": lambda: sqlite.write(add(2)),
        "atomic": lambda: sqlite.atomic(ADD, id=2, text="ours"),
        "not durable": lambda: sqlite.atomic(ADD, durable=False, id=2, text="ours"),
    }
    writer = threading.Thread(target=ways[way])
    writer.start()
    assert ids(sqlite) == []
    foreign.execute("COMMIT")
    foreign.close()
    writer.join()
    assert ids(sqlite) == [1, 2]


def test_only_what_is_not_durable_is_not_synced(sqlite: Database) -> None:
    make_notes(sqlite)
    assert isinstance(sqlite, SqliteDatabase)
    connection = sqlite._file.writer._connection
    assert connection is not None
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    sqlite.atomic(ADD, durable=False, id=1, text="x")
    with pytest.raises(StoreConflict):
        sqlite.atomic(ADD, durable=False, id=1, text="again")
    sqlite.write(lambda tx: tx.run(ADD, id=2, text="x"))
    connection.set_trace_callback(None)
    synced = {"PRAGMA synchronous = normal": "no", "PRAGMA synchronous = full": "yes"}
    told = [
        synced.get(each, each) for each in seen if each in synced or each in ("BEGIN IMMEDIATE", "COMMIT")
    ]
    assert told == ["no", "yes", "BEGIN IMMEDIATE", "COMMIT"], (
        "a statement alone begins and commits by itself"
    )
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_an_interrupt_of_the_setting_leaves_durable_writes_durable(sqlite: Database) -> None:
    make_notes(sqlite)
    assert isinstance(sqlite, SqliteDatabase)
    writer, said = sqlite._file.writer, []

    class Interrupted:
        def execute(self, statement: str) -> None:
            said.append(statement)
            if len(said) == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer._synchronize(Interrupted(), False)  # type: ignore[arg-type]
    writer._synchronize(Interrupted(), True)  # type: ignore[arg-type]
    assert said == ["PRAGMA synchronous = normal", "PRAGMA synchronous = full"]


def test_a_queued_write_that_is_not_durable_is_not_synced(sqlite: Database) -> None:
    make_notes(sqlite)
    assert isinstance(sqlite, SqliteDatabase)
    writer, inside, go_on, seen = sqlite._file.writer, threading.Event(), threading.Event(), list[str]()

    def lead(tx: Transaction) -> None:
        inside.set()
        go_on.wait()

    threads = [threading.Thread(target=sqlite.write, args=[lead])]
    threads[0].start()
    inside.wait()
    threads.append(threading.Thread(target=lambda: sqlite.atomic(ADD, durable=False, id=1, text="x")))
    threads[1].start()
    until(lambda: len(writer._waiting) == 1)
    assert writer._connection is not None
    writer._connection.set_trace_callback(seen.append)
    go_on.set()
    for thread in threads:
        thread.join()
    assert "PRAGMA synchronous = normal" in seen
    assert ids(sqlite) == [1]
