"""What every kind of store promises."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
from notes_table import ADD, ADD_RETURNING, ALL, BROKEN, GET, SET, SET_ALL, ids, make_notes

from afl.kernel.database import Database, Query, Transaction
from afl.kernel.errors import PayloadError, StoreConflict, StoreError


@pytest.fixture(autouse=True)
def notes(database: Database) -> None:
    make_notes(database)


def test_what_was_written_is_read(database: Database) -> None:
    assert database.write(lambda tx: tx.run(ADD, id=1, text="one")) == 1
    row = database.read(lambda tx: tx.one(GET, id=1))
    assert row is not None
    assert (row["id"], row["text"], dict(row)) == (1, "one", {"id": 1, "text": "one"})
    assert database.read(lambda tx: tx.one(GET, id=2)) is None


def test_run_counts_the_rows_it_hit(database: Database) -> None:
    database.write(lambda tx: tx.many(ADD, [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]))
    assert database.write(lambda tx: tx.run(SET, id=1, text="c")) == 1
    assert database.write(lambda tx: tx.run(SET, id=9, text="c")) == 0
    assert database.write(lambda tx: tx.run(SET_ALL, text="d")) == 2


def test_many_takes_mappings_and_tuples(database: Database) -> None:
    assert database.write(lambda tx: tx.many(ADD, [(1, "a"), {"id": 2, "text": "b"}, (3, None)])) == 3
    assert database.write(lambda tx: tx.many(ADD, [])) == 0
    assert [tuple(dict(row).values()) for row in database.select(ALL)] == [(1, "a"), (2, "b"), (3, None)]


def test_the_rows_of_many_may_stand_at_several_places_and_between_the_clock(database: Database) -> None:
    add = Query.of(
        "insert into notes (id, text) select :id, :text where {now} > :id and {now} > 0 and :text = :text"
    )
    rows = [(1, "a"), {"text": "b", "id": 2}]
    assert database.write(lambda tx: tx.many(add, rows)) == 2
    assert [tuple(dict(row).values()) for row in database.select(ALL)] == [(1, "a"), (2, "b")]


def test_a_parameter_that_is_not_given_is_told_and_nothing_is_written(database: Database) -> None:
    def one(tx: Transaction) -> None:
        tx.run(ADD, id=1, text="a")
        tx.run(ADD, id=2)

    def several(tx: Transaction) -> None:
        tx.many(ADD, [{"id": 1, "text": "a"}, {"id": 2}])

    for work in (one, several):
        with pytest.raises(StoreError, match=r"parameter ('text' is not given|missing: text)"):
            database.write(work)
    with pytest.raises(StoreError, match=r"parameter ('id' is not given|missing: id)"):
        database.atomic(ADD, text="a")
    assert ids(database) == []


def test_atomic_is_one_whole_write(database: Database) -> None:
    assert [row["id"] for row in database.atomic(ADD_RETURNING, id=5, text="x")] == [5]
    assert database.atomic(ADD, id=6, text="x") == []
    with pytest.raises(StoreConflict):
        database.atomic(ADD, id=6, text="again")
    assert ids(database) == [5, 6]


def test_what_is_not_durable_is_one_whole_write_too(database: Database) -> None:
    assert [row["id"] for row in database.atomic(ADD_RETURNING, durable=False, id=5, text="x")] == [5]
    with pytest.raises(StoreConflict):
        database.atomic(ADD, durable=False, id=5, text="again")
    with pytest.raises(StoreError, match="inside a transaction"):
        database.write(lambda tx: database.atomic(ADD, durable=False, id=6, text="x"))
    assert ids(database) == [5]


@pytest.mark.parametrize("text", ["before\x00after", "half \ud800 a character"])
def test_text_that_the_store_cannot_hold_is_refused_in_many_rows_too(database: Database, text: str) -> None:
    if database.dialect == "sqlite" and "\x00" in text:
        database.write(lambda tx: tx.many(ADD, [(1, text)]))
        assert [row["text"] for row in database.select(ALL)] == [text]
    else:
        with pytest.raises(PayloadError, match="does not fit the store"):
            database.write(lambda tx: tx.many(ADD, [(1, "good"), (2, text)]))
        assert ids(database) == []
    database.write(lambda tx: tx.many(ADD, [(3, "ü")]))
    assert ids(database)[-1] == 3


def test_an_exception_undoes_everything(database: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.run(ADD, id=1, text="a")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        database.write(work)
    assert ids(database) == []


@pytest.mark.parametrize("values", [{"id": 1, "text": "twin"}, {"id": 0, "text": "check"}])
def test_a_constraint_refuses_by_name(database: Database, values: dict[str, object]) -> None:
    database.write(lambda tx: tx.run(ADD, id=1, text="a"))
    with pytest.raises(StoreConflict, match="query add"):
        database.write(lambda tx: tx.run(ADD, **values))
    assert ids(database) == [1]


def test_queued_statements_are_executed_before_the_next_result_and_the_commit(database: Database) -> None:
    def work(tx: Transaction) -> list[int]:
        tx.queue(ADD, id=1, text="a")
        tx.queue(ADD, id=2, text="b")
        seen = [row["id"] for row in tx.all(ALL)]
        tx.queue(ADD, id=3, text="c")
        tx.many(ADD, [(4, "d")])
        tx.queue(SET, id=4, text="e")
        return seen

    assert database.write(work) == [1, 2]
    assert ids(database) == [1, 2, 3, 4]
    assert [dict(row)["text"] for row in database.select(ALL)] == ["a", "b", "c", "e"]
    database.write(lambda tx: tx.queue(ADD, id=5, text="f"))
    assert ids(database) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("then", [None, ALL])
def test_a_queued_statement_that_fails_undoes_the_transaction(database: Database, then: Query | None) -> None:
    def work(tx: Transaction) -> None:
        tx.queue(ADD, id=1, text="a")
        tx.queue(ADD, id=1, text="b")
        if then is not None:
            tx.all(then)

    with pytest.raises(StoreConflict):
        database.write(work)
    assert ids(database) == []


def test_a_failed_statement_cannot_be_swallowed(database: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.run(ADD, id=1, text="a")
        try:
            tx.run(ADD, id=1, text="b")
        except StoreConflict:
            return

    with pytest.raises(StoreError, match="cannot be committed"):
        database.write(work)
    assert ids(database) == []


def test_a_broken_query_is_named_in_its_error(database: Database) -> None:
    with pytest.raises(StoreError, match="query broken"):
        database.read(lambda tx: tx.all(BROKEN))
    with pytest.raises(StoreError, match="query get"):
        database.read(lambda tx: tx.all(GET))
    assert ids(database) == []


def test_a_read_cannot_write(database: Database) -> None:
    def refused(work: Callable[[Transaction], int]) -> None:
        with pytest.raises(StoreError, match="query add writes inside a read"):
            database.read(work)

    refused(lambda tx: tx.run(ADD, id=1, text="a"))
    refused(lambda tx: tx.many(ADD, [{"id": 1, "text": "a"}]))
    database.write(lambda tx: tx.run(ADD, id=2, text="b"))
    assert ids(database) == [2]
    refused(lambda tx: tx.run(ADD, id=1, text="a"))
    refused(lambda tx: len(tx.all(ALL)) + tx.run(ADD, id=1, text="a"))
    assert ids(database) == [2]


@pytest.mark.parametrize("values", [{"id": 2**63, "text": "a"}, {"id": 1, "text": "\ud800"}])
def test_a_value_no_store_can_hold_is_bad_input(database: Database, values: dict[str, object]) -> None:
    with pytest.raises(PayloadError, match="query add"):
        database.write(lambda tx: tx.run(ADD, **values))
    assert ids(database) == []


def _nested(verb: Callable[[Callable[[Transaction], None]], None], tx: Transaction) -> None:
    verb(lambda tx: None)


def test_transactions_do_not_nest(database: Database) -> None:
    for inner in (database.read, database.write):
        with pytest.raises(StoreError, match="inside a transaction"):
            database.write(partial(_nested, inner))
        with pytest.raises(StoreError, match="inside a transaction"):
            database.read(partial(_nested, inner))
    with pytest.raises(StoreError, match="inside a transaction"):
        database.write(lambda tx: database.atomic(ALL))
    assert ids(database) == []


def test_a_transaction_cannot_be_kept(database: Database) -> None:
    kept = database.write(lambda tx: tx)
    with pytest.raises(StoreError, match="transaction is over"):
        kept.all(ALL)


def test_lists_are_parameters(database: Database) -> None:
    database.write(lambda tx: tx.many(ADD, [(1, "a"), (2, "it's, {b}"), (3, "c")]))
    chosen = Query.of("select id from notes where id {in:ids} or text {in:texts} order by id")
    assert [row["id"] for row in database.select(chosen, ids=[3], texts=["it's, {b}"])] == [2, 3]
    assert database.select(chosen, ids=[], texts=[]) == []
    joined = Query.of("select n.id from {each_int:ids} join notes n on n.id = each_ids.value order by n.id")
    assert [row["id"] for row in database.select(joined, ids=[1, 3, 7])] == [1, 3]
    texts = Query.of("select value from {each:texts} order by value")
    assert [row["value"] for row in database.select(texts, texts=["x", "%(y)s"])] == ["%(y)s", "x"]


def test_literals_arrive_as_written(database: Database) -> None:
    query = Query.of("""select '100%' as a, ':x' as b, '{"k": {}}' as c, 7 % 4 as d, :x as e""")
    (row,) = database.select(query, x="%(x)s")
    assert list(dict(row).values()) == ["100%", ":x", '{"k": {}}', 3, "%(x)s"]


def test_the_clock_of_queries_is_the_clock_of_the_store(database: Database) -> None:
    before = database.now()
    inside = database.write(lambda tx: tx.all(Query.of("select {now} as now"))[0]["now"])
    assert before <= inside <= database.now()


def test_threads_lose_no_update(database: Database) -> None:
    database.write(lambda tx: tx.run(ADD, id=1, text="0"))
    lock = Query.of("select text from notes where id = 1 {for_update}")

    def add_one(tx: Transaction) -> None:
        row = tx.one(lock)
        assert row is not None
        tx.run(SET, id=1, text=str(int(row["text"]) + 1))

    def count() -> None:
        for _ in range(20):
            database.write(add_one)

    threads = [threading.Thread(target=count) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert database.select(GET, id=1)[0]["text"] == "240"


def test_a_closed_store_says_so(database: Database) -> None:
    database.close()
    database.close()
    with pytest.raises(StoreError, match="closed"):
        database.read(lambda tx: None)
    with pytest.raises(StoreError, match="closed"):
        database.atomic(ALL)


def test_a_read_sees_one_unchanging_picture(url: str, database: Database) -> None:
    if url == "memory://":  # one connection: whoever reads has the store to itself
        assert database.read(lambda tx: tx.all(ALL)) == []
        return

    def look_twice(tx: Transaction) -> tuple[int, int]:
        first = len(tx.all(ALL))
        writer = threading.Thread(target=lambda: database.write(lambda tx: tx.run(ADD, id=1, text="a")))
        writer.start()
        writer.join()
        return first, len(tx.all(ALL))

    assert database.read(look_twice) == (0, 0)
    assert ids(database) == [1]
