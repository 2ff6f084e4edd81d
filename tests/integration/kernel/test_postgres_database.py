"""PostgreSQL: lost connections, unknown outcomes, deadlocks, and what is said about them."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from conversation import SCRIPT, heard, until
from notes_table import ADD, ADD_RETURNING, ALL, GET, SET, SET_ALL, ids, make_notes
from postgres_proxy import Proxy
from support.processes import python

from afl.devstack import temporary_stack
from afl.kernel.database import Database, Query, Statement, Transaction, connect
from afl.kernel.database.postgres import POOL_SIZE, PostgresDatabase
from afl.kernel.errors import FencedError, MissingExtraError, PayloadError, StoreConflict, StoreUnavailable

PID = Query.of("select pg_backend_pid() as pid")
# Who waits for us; pg_stat_activity does not change within a transaction.
BLOCKED = Query.of(
    "select 1 from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"
)
SESSION = Query.of("select 1 from pg_stat_activity where pid = :pid")


@pytest.fixture
def proxy(postgres_database: str) -> Iterator[Proxy]:
    with Proxy(postgres_database) as between:
        yield between


@pytest.fixture
def shaky(proxy: Proxy, postgres: Database) -> Iterator[Database]:
    """A store behind a line that can be cut; `postgres` is the same store on a good one."""
    make_notes(postgres)
    with connect(proxy.url) as database:
        yield database


@pytest.mark.parametrize("deliver", [True, False])
def test_a_commit_whose_answer_is_lost_is_not_repeated(
    shaky: Database, postgres: Database, proxy: Proxy, deliver: bool
) -> None:
    runs = []
    proxy.cut_at, proxy.deliver = b"COMMIT\x00", deliver

    def work(tx: Transaction) -> None:
        runs.append(tx.run(ADD, id=1, text="a"))

    with pytest.raises(StoreUnavailable, match="may or may not have taken effect"):
        shaky.write(work)
    assert len(runs) == 1
    # Waits for the row's fate: the server undoes or keeps it when it is done with the lost connection.
    twin = Query.of("insert into notes (id, text) values (1, 'twin') on conflict do nothing")
    assert postgres.write(lambda tx: tx.run(twin)) == (0 if deliver else 1)


def test_a_single_statement_whose_answer_is_lost_is_not_repeated(
    shaky: Database, postgres: Database, proxy: Proxy
) -> None:
    (row,) = shaky.select(PID)
    proxy.cut_at = b"insert into notes"
    with pytest.raises(StoreUnavailable, match="look before you repeat it"):
        shaky.atomic(ADD_RETURNING, id=1, text="a")
    until(lambda: not postgres.select(SESSION, pid=row["pid"]))  # the server ends what it got
    assert ids(postgres) == [1]


@pytest.mark.parametrize("way", ["atomic", "passing", "select"])
def test_a_single_statement_is_one_round_trip(postgres: Database, way: str) -> None:
    """Inside BEGIN and COMMIT the transaction is older than the statement."""
    (row,) = getattr(postgres, way)(Query.of("select now() = statement_timestamp() as alone"))
    assert row["alone"] is True
    within = postgres.write(lambda tx: tx.one(Query.of("select now() = statement_timestamp() as alone")))
    assert within is not None
    assert within["alone"] is False


def test_statements_together_are_prepared_once_and_one_transaction(postgres: Database) -> None:
    make_notes(postgres)
    note = Query.of("insert into notes (id, text) values (:id, pg_current_xact_id()::text)")
    for first in (1, 3):
        postgres.together([Statement(note, (first,), must_hit=True), Statement(note, (first + 1,))])
    texts = [row["text"] for row in postgres.select(ALL)]
    assert texts[0] == texts[1] != texts[2] == texts[3]
    prepared = Query.of("select count(*) as found from pg_prepared_statements where name like 'afl_%'")
    assert postgres.select(prepared)[0]["found"] == 2  # with the demand for a row, and without


def test_what_psycopg_deallocates_is_prepared_again(postgres: Database) -> None:
    """It drops every prepared statement of a connection after its first ROLLBACK, not only those it made."""
    make_notes(postgres)
    assert isinstance(postgres, PostgresDatabase)
    postgres._pool.close()
    postgres._pool._closed = False  # from here on there is one connection, which has never rolled back
    postgres.together([Statement(ADD, (1, "a"))])
    for _ in range(4):
        postgres.select(PID)
    postgres.read(lambda tx: tx.one(PID))
    postgres.together([Statement(ADD, (2, "b"))])
    for number in (3, 4):
        with pytest.raises(StoreConflict):
            postgres.together([Statement(SET_ALL, ("c",)), Statement(ADD, (1, "a"))])
        postgres.together([Statement(ADD, (number, "b"))])
    assert [row["text"] for row in postgres.select(ALL)] == ["a", "b", "b", "b"]
    prepared = Query.of("select count(*) as found from pg_prepared_statements where name like 'afl_%'")
    assert postgres.select(prepared)[0]["found"] == 2


def test_a_database_in_another_encoding_keeps_what_it_is_given(postgres_url: str) -> None:
    name = f"latin_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"create database {name} encoding 'LATIN1' locale 'C' template template0".encode())
        try:
            with connect(f"{postgres_url.rpartition('/')[0]}/{name}") as database:
                make_notes(database)
                database.together([Statement(ADD, (1, "für"))])
                database.atomic(ADD, id=2, text="für")
                assert [row["text"] for row in database.select(ALL)] == ["für", "für"]
                with pytest.raises(PayloadError):
                    database.together([Statement(ADD, (3, "日"))])
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


@pytest.mark.parametrize("deliver", [True, False])
def test_statements_together_whose_answer_is_lost_are_not_repeated(
    shaky: Database, postgres: Database, proxy: Proxy, deliver: bool
) -> None:
    (row,) = shaky.select(PID)
    proxy.cut_at, proxy.deliver = b"insert into notes", deliver
    with pytest.raises(StoreUnavailable, match="look before you repeat it"):
        shaky.together([Statement(ADD, (1, "a")), Statement(ADD, (2, "b"))])
    until(lambda: not postgres.select(SESSION, pid=row["pid"]))
    assert ids(postgres) == ([1, 2] if deliver else [])
    shaky.together([Statement(ADD, (3, "c"))])
    assert ids(postgres)[-1] == 3


def test_a_pooler_gets_them_one_by_one(postgres_database: str, postgres: Database) -> None:
    make_notes(postgres)
    with Proxy(postgres_database, pooler=True) as pooler, connect(pooler.url) as database:
        assert postgres.pipelines and not database.pipelines
        database.together([Statement(ADD, (1, "a")), Statement(SET, ("b", 1), must_hit=True)])
        with pytest.raises(FencedError):
            database.together([Statement(ADD, (2, "a")), Statement(SET, ("b", 9), must_hit=True)])
    assert ids(postgres) == [1]


def test_of_two_that_wait_for_each_other_the_one_together_runs_again(postgres_database: str) -> None:
    with connect(f"{postgres_database}?options=-c%20deadlock_timeout%3D20ms") as database:
        make_notes(database)
        database.together([Statement(ADD, (1, "0")), Statement(ADD, (2, "0"))])
        crossing = threading.Thread(
            target=lambda: database.together([Statement(SET, ("b", 2)), Statement(SET, ("b", 1))])
        )

        def work(tx: Transaction) -> None:
            tx.run(SET, id=1, text="a")
            if crossing.ident is None:
                crossing.start()
                until(lambda: bool(tx.all(BLOCKED)))
            tx.run(SET, id=2, text="a")

        database.write(work)
        crossing.join()
        assert {row["text"] for row in database.select(ALL)} in ({"a"}, {"b"})


def test_an_interrupt_in_the_middle_costs_the_connection_and_nothing_else(postgres: Database) -> None:
    make_notes(postgres)
    postgres.together([Statement(ADD, (1, "a"))])
    began = threading.Event()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def hold(tx: Transaction) -> None:
        tx.run(SET, id=1, text="held")
        began.set()
        until(lambda: bool(tx.all(BLOCKED)))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        holder = threading.Thread(target=lambda: postgres.write(hold))
        holder.start()
        began.wait()
        with pytest.raises(KeyboardInterrupt):
            postgres.together([Statement(SET, ("b", 1)), Statement(ADD, (2, "b"))])
    finally:
        signal.signal(signal.SIGUSR1, before)
    holder.join()
    postgres.together([Statement(ADD, (3, "c"))])
    assert 3 in ids(postgres)


def test_only_small_results_are_kept_with_their_cursor(postgres: Database) -> None:
    assert isinstance(postgres, PostgresDatabase)
    one, many = Query.of("select 1 as n"), Query.of("select n from generate_series(1, 3) as n")
    assert [row["n"] for row in postgres.select(one)] == [1]
    assert [row["n"] for row in postgres.select(many)] == [1, 2, 3]
    (connection,) = postgres._pool._idle
    assert list(connection._cursors) == [one.postgres]
    assert [row["n"] for row in postgres.select(one)] == [1]


def test_a_line_lost_before_the_commit_costs_nothing(shaky: Database, proxy: Proxy) -> None:
    runs = []
    proxy.cut_at = b"insert into notes"

    def work(tx: Transaction) -> None:
        runs.append(1)
        tx.run(ADD, id=1, text="a")

    shaky.write(work)
    assert len(runs) == 2
    assert ids(shaky) == [1]


def test_lines_lost_while_idle_are_replaced_even_for_single_statements(shaky: Database, proxy: Proxy) -> None:
    barrier = threading.Barrier(3)
    threads = [threading.Thread(target=lambda: shaky.read(lambda tx: barrier.wait())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert proxy.lines == 1 + 3  # one to find out who answers
    proxy.cut()
    for number in range(1, 4):
        shaky.atomic(ADD, id=number, text="a")
    assert ids(shaky) == [1, 2, 3]


def test_a_session_ended_by_the_administrator_is_replaced(postgres: Database) -> None:
    make_notes(postgres)
    (row,) = postgres.select(PID)
    assert isinstance(postgres, PostgresDatabase)
    with postgres.new_connection() as admin:
        admin.execute("select pg_terminate_backend(%s::int, 10000)", [row["pid"]])
    postgres.atomic(ADD, id=1, text="a")
    assert ids(postgres) == [1]


def test_the_last_connection_given_back_goes_out_first(postgres: Database) -> None:
    assert len({postgres.select(PID)[0]["pid"] for _ in range(20)}) == 1


def test_more_threads_than_connections_take_turns(postgres: Database) -> None:
    make_notes(postgres)
    numbers = range(1, POOL_SIZE * 3 + 1)
    threads = [
        threading.Thread(target=lambda n=n: postgres.write(lambda tx: tx.run(ADD, id=n, text="a")))
        for n in numbers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(postgres) == list(numbers)


def test_a_deadlock_is_run_again(postgres_database: str) -> None:
    with connect(f"{postgres_database}?options=-c%20deadlock_timeout%3D20ms") as database:
        make_notes(database)
        database.write(lambda tx: tx.many(ADD, [(1, "0"), (2, "0")]))
        barrier = threading.Barrier(2)
        runs: list[str] = []

        def cross(first: int, second: int) -> None:
            tried: list[int] = []

            def work(tx: Transaction) -> None:
                tx.run(SET, id=first, text=f"from {first}")
                tried.append(1)
                if len(tried) == 1:
                    barrier.wait()
                tx.run(SET, id=second, text=f"from {first}")

            database.write(work)
            runs.extend("x" * len(tried))

        threads = [threading.Thread(target=cross, args=pair) for pair in ((1, 2), (2, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(runs) >= 3  # the one that gave way may meet the other once more
        assert database.select(GET, id=1)[0]["text"] == database.select(GET, id=2)[0]["text"]


def test_a_server_that_restarts_is_found_again() -> None:
    with temporary_stack() as stack, connect(stack.up(["postgres"])["postgres"]) as database:
        make_notes(database)
        stack.down()
        with pytest.raises(StoreUnavailable, match=r"cannot connect to postgresql://postgres@127.0.0.1"):
            database.write(lambda tx: tx.run(ADD, id=1, text="lost"))
        stack.up(["postgres"])
        database.write(lambda tx: tx.run(ADD, id=2, text="kept"))
        assert ids(database) == [2]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr%20et@127.0.0.1:1/db?connect_timeout=2",
        "postgresql://me:s3cr/et@127.0.0.1:1/db",
        "postgresql://me:12/s3cret@127.0.0.1:1/db",
        "postgresql://me:s?s3cret@127.0.0.1:1/db",
        "postgresql://me:s3cret@127.0.0.1:notaport/db",
        "postgresql://me@127.0.0.1:1/db?password=s3cret&nonsense=1",
    ],
)
def test_an_error_to_connect_keeps_the_password_to_itself(url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"me(:[*]+)?@127.0.0.1") as caught:
        connect(url)
    shown = [repr(error) for error in (caught.value, caught.value.__cause__, caught.value.__context__)]
    assert not any("s3cr" in text for text in shown)


def test_a_database_that_does_not_exist(postgres_url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r'"no_such_database" does not exist.*check'):
        connect(postgres_url.rpartition("/")[0] + "/no_such_database")


def test_a_server_lost_right_after_its_greeting_is_a_named_error(postgres: Database, proxy: Proxy) -> None:
    with connect(proxy.url) as database:
        proxy.cut_at, proxy.deliver = b"plan_cache_mode", False
        with pytest.raises(StoreUnavailable, match="cannot connect to"):
            database.select(PID)
        assert len(database.select(PID)) == 1


def test_nothing_is_set_on_the_sessions_of_a_pooler(postgres_database: str) -> None:
    show = Query.of("show plan_cache_mode")
    with Proxy(postgres_database, pooler=True) as pooler, connect(pooler.url) as database:
        assert database.select(show)[0]["plan_cache_mode"] == "auto"
    with connect(postgres_database) as database:
        assert database.select(show)[0]["plan_cache_mode"] == "force_generic_plan"


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("psycopg", "afl.kernel.database.postgres"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "afl.kernel.presence.postgres")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r'pip install "agentflow\[postgres\]"'):
        connect("postgresql://me@127.0.0.1/db")


def test_a_forked_child_has_connections_and_presence_of_its_own(postgres_database: str) -> None:
    with python(SCRIPT, "fork", postgres_database) as process:
        report = heard(process)
        assert process.wait() == 0
    assert report["child_sees"] == [1, 2]
    assert report["parent_sees"] == [1, 2, 3]
    assert report["parent_as_seen_by_child"] == "alive"
    assert report["parent_id_kept"]
    assert report["child_as_seen_later"] in ("alive", "unknown")


def test_a_new_connection_is_the_callers_own(postgres: Database) -> None:
    assert isinstance(postgres, PostgresDatabase)
    with postgres.new_connection() as listener, postgres.new_connection() as caller:
        listener.execute("listen bell")
        caller.execute("select pg_notify('bell', 'ding')")
        assert [note.payload for note in listener.notifies(stop_after=1)] == ["ding"]
        assert isinstance(listener, psycopg.Connection)
