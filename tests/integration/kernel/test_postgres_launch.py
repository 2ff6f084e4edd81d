"""PostgreSQL: a statement that the server executes while the caller does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from conversation import until
from notes_table import ADD_RETURNING, ids, make_notes
from support.postgres_proxy import Proxy

from afl.kernel.database import Database, Query, Row, Transaction, connect
from afl.kernel.database.postgres import POOL_SIZE
from afl.kernel.errors import PayloadError, StoreConflict, StoreError, StoreUnavailable

LOCK = Query.of("select id from notes where id = :id for update")
TOUCH = Query.of("update notes set text = :text where id = :id returning *")
ADD_COLUMN = Query.of("alter table notes add column more text")
ACTIVE = Query.of("select 1 from pg_stat_activity where wait_event_type = 'Lock'")


@pytest.fixture
def notes(postgres: Database) -> Database:
    make_notes(postgres)
    postgres.atomic(ADD_RETURNING, id=1, text="a")
    return postgres


@pytest.fixture
def proxy(postgres_database: str) -> Iterator[Proxy]:
    with Proxy(postgres_database) as between:
        yield between


def test_the_caller_does_something_else_meanwhile(notes: Database, postgres_database: str) -> None:
    landings: list[Callable[[], list[Row]]] = []

    def work(tx: Transaction) -> None:
        tx.one(LOCK, id=1)
        with connect(postgres_database) as other:
            landings.append(notes_of_others.launch(TOUCH, id=1, text="b"))
            until(lambda: bool(other.select(ACTIVE)))  # it waits for us, and we do not wait for it

    with connect(postgres_database) as notes_of_others:
        notes.write(work)
        assert landings[0]()[0]["text"] == "b"


def test_every_connection_comes_back(notes: Database) -> None:
    for number in range(2, 2 * POOL_SIZE):
        first, second = notes.launch(ADD_RETURNING, id=number, text="x"), notes.launch(TOUCH, id=1, text="y")
        assert second()[0]["id"] == 1
        assert first()[0]["id"] == number
        with pytest.raises(StoreConflict):
            notes.launch(ADD_RETURNING, id=number, text="again")()
    assert len(ids(notes)) == 2 * POOL_SIZE - 1


def test_who_flies_finds_a_connection_for_other_things(notes: Database) -> None:
    """However many fly at once: each of them asks for something else before it lands."""
    together = threading.Barrier(POOL_SIZE)

    def fly(number: int) -> list[Row]:
        land = notes.launch(ADD_RETURNING, id=number, text="x")
        together.wait(60)
        notes.now()
        return land()

    with ThreadPoolExecutor(POOL_SIZE) as threads:
        landed = list(threads.map(fly, range(2, POOL_SIZE + 2)))
    assert [rows[0]["id"] for rows in landed] == [*range(2, POOL_SIZE + 2)]


def test_what_was_prepared_before_its_table_changed_is_executed_all_the_same(notes: Database) -> None:
    for text in "bcd":
        assert notes.launch(TOUCH, id=1, text=text)()[0]["text"] == text
    notes.write(lambda tx: tx.run(ADD_COLUMN))
    assert notes.launch(TOUCH, id=1, text="e")()[0]["more"] is None


def test_what_cannot_be_sent_is_refused(notes: Database) -> None:
    with pytest.raises(PayloadError):
        notes.launch(TOUCH, id=1, text="\ud800")
    assert notes.launch(TOUCH, id=1, text="b")()[0]["text"] == "b"


@pytest.mark.parametrize("deliver", [True, False])
def test_one_whose_answer_is_lost_is_not_repeated(notes: Database, proxy: Proxy, deliver: bool) -> None:
    with connect(proxy.url) as shaky:
        shaky.launch(TOUCH, id=1, text="b")()
        proxy.cut_at, proxy.deliver = b"in between", deliver
        with pytest.raises(StoreUnavailable, match="may or may not have taken effect"):
            shaky.launch(ADD_RETURNING, id=2, text="in between")()
        assert shaky.launch(TOUCH, id=1, text="c")()[0]["text"] == "c"
    if deliver:
        until(lambda: ids(notes) == [1, 2])
    else:
        assert ids(notes) == [1]


def test_a_closed_database_launches_nothing(postgres_database: str) -> None:
    database = connect(postgres_database)
    database.close()
    with pytest.raises(StoreError, match="closed"):
        database.launch(Query.of("select 1 as one"))


def test_elsewhere_it_is_done_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    with connect(f"sqlite:///{tmp_path_factory.mktemp('launch')}/x.db") as database:
        make_notes(database)
        land = database.launch(ADD_RETURNING, id=1, text="a")
        assert ids(database) == [1]
        assert land()[0]["id"] == 1
