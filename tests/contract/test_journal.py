"""What the journal promises on every store, above all that a reader skips nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from afl.kernel.database import Database, Query, Transaction, connect
from afl.kernel.errors import PayloadError, StoreConflict
from afl.kernel.journal import Entry, Journal, Record

SECONDS = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    is_server = request.param == "postgres"
    file = f"sqlite:///{tmp_path}/afl.db"
    with request.getfixturevalue("kept_postgres").take() if is_server else connect(file) as database:
        yield database


@pytest.fixture
def journal(database: Database) -> Journal:
    return Journal(database)


def add(database: Database, journal: Journal, stream: str, *values: Any, key: str = "") -> None:
    database.write(lambda tx: [journal.append(tx, stream, "note", value, key=key) for value in values])


def values(records: list[Record]) -> list[Any]:
    return [record.data for record in records]


def test_a_record_comes_back_as_it_was_written(database: Database, journal: Journal) -> None:
    data = {"text": 'ä\n"', "list": [1, 2.5, None, True]}
    position = database.write(lambda tx: journal.append(tx, "audit", "created", data, key="run-1", at=1234))
    assert journal.read("audit") == [Record(position, "audit", "created", "run-1", data, 1234)]


def test_reading_goes_on_behind_a_position(database: Database, journal: Journal) -> None:
    add(database, journal, "s", *range(10))
    first = journal.read("s", limit=4)
    second = journal.read("s", after=first[-1].position, limit=4)
    third = journal.read("s", after=second[-1].position, limit=4)
    assert [values(part) for part in (first, second, third)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert journal.read("s", after=third[-1].position) == []


def test_streams_and_keys_are_apart(database: Database, journal: Journal) -> None:
    add(database, journal, "a", 1, key="x")
    add(database, journal, "b", 2, key="x")
    add(database, journal, "a", 3, key="y")
    add(database, journal, "a", 4)
    assert values(journal.read("a")) == [1, 3, 4]
    assert values(journal.read("a", key="x")) == [1]
    assert values(journal.read("b", key="x")) == [2]
    assert journal.read("c") == []


def test_many_at_once_keep_their_order(database: Database, journal: Journal) -> None:
    entries = [Entry("n", number, key=str(number % 2)) for number in range(500)]
    database.write(lambda tx: journal.append_all(tx, "s", entries))
    database.write(lambda tx: journal.append_all(tx, "s", []))
    assert values(journal.read("s", limit=1000)) == list(range(500))
    assert values(journal.read("s", key="1", limit=2)) == [1, 3]


def test_the_latest_come_newest_first(database: Database, journal: Journal) -> None:
    add(database, journal, "s", 1, 2, 3, key="k")
    add(database, journal, "s", 4)
    assert values(database.read(lambda tx: journal.latest(tx, "s", limit=2))) == [4, 3]
    assert values(database.read(lambda tx: journal.latest(tx, "s", key="k", limit=2))) == [3, 2]


def test_what_is_rolled_back_was_never_there(database: Database, journal: Journal) -> None:
    class GivenUpError(Exception):
        pass

    def fail(tx: Transaction) -> None:
        journal.append(tx, "s", "note", "lost")
        raise GivenUpError

    with pytest.raises(GivenUpError):
        database.write(fail)
    add(database, journal, "s", "kept")
    assert values(journal.read("s")) == ["kept"]


def test_trimming_takes_the_oldest_and_never_reuses_a_position(database: Database, journal: Journal) -> None:
    add(database, journal, "other", 0)
    add(database, journal, "s", 1, 2, 3, 4)
    last = journal.read("s")[-1].position
    assert database.write(lambda tx: journal.trim(tx, "s", last - 1, limit=2)) == 2
    assert values(journal.read("s")) == [3, 4]
    assert database.write(lambda tx: journal.trim(tx, "s", last)) == 2
    add(database, journal, "s", 5)
    assert journal.read("s")[0].position > last
    assert values(journal.read("other")) == [0]


def test_trimming_by_age(database: Database, journal: Journal) -> None:
    for at in (100, 200, 300):
        database.write(lambda tx, at=at: journal.append(tx, "s", "note", at, at=at))  # type: ignore[misc]
    assert database.write(lambda tx: journal.trim_older(tx, "s", 300, limit=10)) == 2
    assert values(journal.read("s")) == [300]


def test_the_tail_is_where_news_begins(database: Database, journal: Journal) -> None:
    assert journal.tail() == 0
    add(database, journal, "s", "old")
    tail = journal.tail()
    add(database, journal, "s", "new")
    assert values(journal.read("s", after=tail)) == ["new"]


def test_what_is_no_plain_data_is_refused_by_name(database: Database, journal: Journal) -> None:
    with pytest.raises(PayloadError, match="note record of s is not plain JSON data"):
        add(database, journal, "s", object())
    with pytest.raises(StoreConflict):
        database.write(lambda tx: journal.append(tx, "", "note"))
    assert journal.tail() == 0 or journal.read("s") == []


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_reader_waits_for_a_lower_position_that_commits_later(database: Database, journal: Journal) -> None:
    taken, release = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        journal.append(tx, "s", "note", "slow, lower position")
        journal.append(tx, "s", "note", "slow again")
        taken.set()
        assert release.wait(SECONDS)

    writer = threading.Thread(target=lambda: database.write(slow))
    writer.start()
    assert taken.wait(SECONDS)
    add(database, journal, "s", "quick, higher position")
    visible = database.select(Query.of("select count(*) as n from journal"))[0]["n"]
    before = journal.read("s")
    release.set()
    writer.join(SECONDS)
    assert visible == 1, "a reader that took what it sees would have passed the slow writer by"
    assert before == []
    assert values(journal.read("s")) == ["slow, lower position", "slow again", "quick, higher position"]


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_transaction_holds_one_lock_however_much_it_records(database: Database, journal: Journal) -> None:
    held = Query.of(  # of this database: the server is shared with the tests beside this one
        "select count(*) as n from pg_locks where locktype = 'advisory' and mode = 'ShareLock'"
        " and database = (select oid from pg_database where datname = current_database())"
    )

    def work(tx: Transaction) -> int:
        journal.append_all(tx, "s", [Entry("n", number) for number in range(200)])
        journal.append(tx, "s", "n")
        row = tx.one(held)
        assert row is not None
        return int(row["n"])

    assert database.write(work) == 1
    assert database.write(work) == 1, "and takes it anew in each transaction of a session"
    assert database.select(held)[0]["n"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_readers_beside_writers_see_every_record_once_in_order(
    database: Database, journal: Journal, seed: int
) -> None:
    class GivenUpError(Exception):
        pass

    committed: list[list[str]] = [[] for _ in range(4)]

    def write(number: int) -> None:
        random = Random(seed * 10 + number)
        for step in range(60):
            texts = [f"{number}/{step}/{n}" for n in range(random.randint(1, 3))]

            def work(tx: Transaction, texts: list[str] = texts) -> None:
                for text in texts:
                    journal.append(tx, "s", "note", text)
                    if random.random() < 0.3:
                        tx.one(Query.of("select 1 as one"))
                if random.random() < 0.2:
                    raise GivenUpError

            try:
                database.write(work)
            except GivenUpError:
                continue
            committed[number].extend(texts)

    done = threading.Event()
    seen: list[list[Record]] = [[], []]

    def follow(mine: list[Record]) -> None:
        while True:
            last_round = done.is_set()
            found = journal.read("s", after=mine[-1].position if mine else 0, limit=7)
            mine.extend(found)
            if last_round and not found:
                return

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    readers = [threading.Thread(target=follow, args=(mine,)) for mine in seen]
    for thread in [*writers, *readers]:
        thread.start()
    for thread in writers:
        thread.join(SECONDS)
    done.set()
    for thread in readers:
        thread.join(SECONDS)
    everything = sorted(text for part in committed for text in part)
    for mine in seen:
        positions = [record.position for record in mine]
        assert positions == sorted(set(positions))
        assert sorted(values(mine)) == everything
    for number, part in enumerate(committed):
        assert [text for text in values(seen[0]) if text.startswith(f"{number}/")] == part
