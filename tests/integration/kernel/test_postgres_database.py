"""PostgreSQL: lost connections, unknown outcomes, deadlocks, and what is said about them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from enum import IntEnum
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from conversation import SCRIPT, received, until
from hypothesis import given
from hypothesis import strategies as st
from notes_table import ADD, ADD_RETURNING, ALL, GET, SET, ids, make_notes
from support.databases import with_database
from support.postgres_proxy import Proxy
from support.processes import python

from afl.devstack import Stack, temporary_stack
from afl.kernel.database import Database, Query, Row, Transaction, connect
from afl.kernel.database.postgres import POOL_SIZE, PostgresDatabase
from afl.kernel.errors import (
    MissingExtraError,
    PayloadError,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


PID = Query.of("select pg_backend_pid() as pid")
# Who waits for us; pg_stat_activity does not change within a transaction.
BLOCKED = Query.of(
    "select 1 from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"
)
EVERYTHING = Query.of("insert into notes values (:id, 'a') returning *")
AGAIN = Query.of("insert into notes values (:id, 'b') returning *")
ADD_EVERYTHING = Query.of("insert into notes values (:id, 'c') returning *")
VALUES = Query.of(
    "select :text::text as text, :texts::text[] as texts, :numbers::bigint[] as numbers, null as nothing, "
    "case when :number = 0 then 0 else :number end as number, :truth as truth, :fraction as fraction"
)
SESSION = Query.of("select 1 from pg_stat_activity where pid = :pid")


def on_thread(where: str, work: Callable[[], None]) -> None:
    """Here, or on a thread that hears no interrupts."""
    if where == "main thread":
        work()
        return
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def ids_only(database: Database) -> list[int]:
    return [row["id"] for row in database.select(Query.of("select id from notes order by id"))]


@pytest.fixture
def proxy(postgres_database: str) -> Iterator[Proxy]:
    with Proxy(postgres_database) as between:
        yield between


@pytest.fixture(scope="module")
def postgres_of_all(postgres_url: str) -> Iterator[Database]:
    """One for all examples of a property."""
    with connect(postgres_url) as database:
        yield database


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


@pytest.mark.parametrize("way", ["atomic", "select"])
def test_a_single_statement_is_one_round_trip(shaky: Database, proxy: Proxy, way: str) -> None:
    """But for the second time, when it is prepared first."""
    shaky.select(PID)  # connects
    for number, trips in enumerate((1, 2, 1, 1), start=1):
        proxy.sent.clear()
        assert getattr(shaky, way)(ADD_RETURNING, id=number, text="a")[0]["id"] == number
        assert len(proxy.sent) == trips


def test_a_transaction_begins_with_its_first_statements_in_one_piece(shaky: Database, proxy: Proxy) -> None:
    shaky.select(PID)  # connects

    def work(tx: Transaction) -> Row | None:
        for number in range(1, 21):
            tx.queue(ADD, id=number, text=f"note {number}")
        return tx.one(GET, id=7)

    proxy.sent.clear()
    assert shaky.write(work) is not None
    begun = proxy.sent[0]
    assert begun.index(b"BEGIN") < begun.index(b"note 1") < begun.index(b"note 20") < begun.index(b"select")
    assert len(ids(shaky)) == 20


def test_a_database_in_another_encoding_keeps_what_it_is_given(postgres_url: str) -> None:
    name = f"latin_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"create database {name} encoding 'LATIN1' locale 'C' template template0".encode())
        try:
            with connect(f"{postgres_url.rpartition('/')[0]}/{name}") as database:
                make_notes(database)
                database.write(lambda tx: tx.many(ADD, [(1, "für")]))
                database.atomic(ADD, id=2, text="für")
                assert [row["text"] for row in database.select(ALL)] == ["für", "für"]
                with pytest.raises(PayloadError):
                    database.atomic(ADD, id=3, text="日")
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


@pytest.mark.parametrize("way", ["single", "many"])
def test_an_interrupt_in_the_middle_costs_the_statement_and_nothing_else(
    postgres: Database, way: str
) -> None:
    make_notes(postgres)
    postgres.atomic(ADD, id=1, text="a")
    began, ended = threading.Event(), threading.Event()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def hold(tx: Transaction) -> None:
        tx.run(SET, id=1, text="held")
        began.set()
        until(lambda: bool(tx.all(BLOCKED)))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        until(
            lambda: not tx.all(BLOCKED)
        )  # the server was told, and waits no more though the row is still held
        ended.set()

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        holder = threading.Thread(target=lambda: postgres.write(hold))
        holder.start()
        began.wait()
        with pytest.raises(KeyboardInterrupt):
            if way == "single":
                postgres.atomic(SET, id=1, text="b")
            else:
                postgres.write(lambda tx: tx.many(SET, [{"id": 1, "text": "b"}, {"id": 2, "text": "b"}]))
    finally:
        signal.signal(signal.SIGUSR1, before)
    holder.join()
    assert ended.is_set()
    postgres.atomic(ADD, id=3, text="c")
    assert [(row["id"], row["text"]) for row in postgres.select(ALL)] == [(1, "held"), (3, "c")]


def test_a_statement_is_prepared_anew_when_its_table_was_altered(postgres: Database) -> None:
    make_notes(postgres)
    for number in (1, 2):
        postgres.atomic(EVERYTHING, id=number)
    postgres.write(lambda tx: tx.run(Query.of("alter table notes add column more text default 'x'")))
    for number in (3, 4, 5):
        (row,) = postgres.atomic(EVERYTHING, id=number)
        assert dict(row) == {"id": number, "text": "a", "more": "x"}
    assert ids(postgres) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("uses", [1, 2])
def test_in_a_transaction_too_whatever_its_statements_were_used_before(postgres: Database, uses: int) -> None:
    make_notes(postgres)

    def work(tx: Transaction, first: int) -> list[dict[str, object]]:
        rows = [tx.one(EVERYTHING, id=first), tx.one(AGAIN, id=first + 1)]
        tx.many(ADD_EVERYTHING, [{"id": first + 2}, {"id": first + 3}])
        return [dict(row) for row in rows if row is not None]

    for number in range(uses):
        postgres.write(lambda tx, number=number: work(tx, 10 * number + 1))
    postgres.write(lambda tx: tx.run(Query.of("alter table notes rename column text to other")))
    found = postgres.write(lambda tx: work(tx, 101))
    assert found == [{"id": 101, "other": "a"}, {"id": 102, "other": "b"}]
    assert ids_only(postgres)[-4:] == [101, 102, 103, 104]


def test_a_statement_that_is_used_before_and_after_an_alteration_knows_its_columns(
    postgres: Database,
) -> None:
    make_notes(postgres)
    postgres.atomic(EVERYTHING, id=1)
    postgres.write(lambda tx: tx.run(Query.of("alter table notes rename column text to other")))
    for number in (2, 3):
        assert dict(postgres.atomic(EVERYTHING, id=number)[0]) == {"id": number, "other": "a"}


def test_what_is_never_supported_is_said_and_not_tried_for_ever(postgres: Database) -> None:
    refuses = Query.of("do $$ begin raise exception 'never' using errcode = '0A000'; end $$")
    for _ in range(3):
        with pytest.raises(StoreError, match="never"):
            postgres.atomic(refuses)
        with pytest.raises(StoreError, match="never"):
            postgres.write(lambda tx: tx.run(refuses))


@pytest.mark.parametrize("where", ["main thread", "another thread"])
def test_a_statement_that_fails_at_its_commit_has_failed(postgres: Database, where: str) -> None:
    make_notes(postgres)
    postgres.write(
        lambda tx: tx.run(
            Query.of("create table lines (id bigint references notes (id) deferrable initially deferred)")
        )
    )
    line = Query.of("insert into lines (id) values (:id) returning id")
    problems: list[BaseException] = []

    def write() -> None:
        for _ in range(3):
            try:
                postgres.atomic(line, id=7)
            except StoreConflict as error:
                problems.append(error)

    on_thread(where, write)
    assert ["foreign key" in str(each) for each in problems] == [True] * 3
    assert postgres.select(Query.of("select * from lines")) == []


@pytest.mark.parametrize("where", ["main thread", "another thread"])
def test_a_lost_connection_is_called_so_on_every_thread(shaky: Database, proxy: Proxy, where: str) -> None:
    problems: list[BaseException] = []

    def write() -> None:
        for _ in range(2):
            proxy.cut_at = b"insert into notes"
            try:
                shaky.atomic(Query.of("insert into notes (id, text) values (1, 'a') returning text"))
            except StoreUnavailable as error:
                problems.append(error)

    on_thread(where, write)
    assert len(problems) == 2


def test_a_connection_in_the_middle_of_a_pipeline_goes_to_nobody(postgres: Database) -> None:
    assert isinstance(postgres, PostgresDatabase)
    session = postgres._pool.take()
    session.connection.pgconn.enter_pipeline_mode()
    postgres._pool.give(session)
    assert session.connection.closed
    assert postgres.select(PID)


@pytest.mark.parametrize("prepared", [False, True])
@given(
    texts=st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
    numbers=st.lists(st.integers(-(2**63), 2**63 - 1)),
    number=st.integers(-(2**63), 2**63 - 1),
    truth=st.booleans(),
    fraction=st.floats(allow_nan=False, allow_infinity=False),
)
def test_values_arrive_as_they_are(
    postgres_of_all: Database,
    prepared: bool,
    texts: list[str | None],
    numbers: list[int],
    number: int,
    truth: bool,
    fraction: float,
) -> None:
    values = {"texts": texts, "numbers": numbers, "number": number, "truth": truth, "fraction": fraction}
    for _ in range(3 if prepared else 1):
        (row,) = postgres_of_all.select(VALUES, text="".join(filter(None, texts)), **values)
    assert dict(row) == {"text": "".join(filter(None, texts)), "nothing": None, **values}


def test_what_cannot_be_sent_is_refused(postgres: Database) -> None:
    for wrong in ("a\0b", ["a", "b\0"], "\udcff"):
        with pytest.raises(PayloadError, match="does not fit the store"):
            postgres.select(Query.of("select :value as value"), value=wrong)


def test_a_number_of_an_enumeration_is_its_number(postgres: Database) -> None:
    (row,) = postgres.select(
        Query.of("select :one::bigint as one, :all::bigint[] as every"), one=Size.LARGE, all=list(Size)
    )
    assert dict(row) == {"one": 2, "every": [1, 2]}


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
    assert proxy.lines == 3  # the one that found out who answers is among them
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


@pytest.fixture(scope="module")
def own_server() -> Iterator[Stack]:
    """A server of these tests alone: nobody else minds when it stops."""
    with temporary_stack() as stack:
        stack.up(["postgres"])
        yield stack


@pytest.fixture
def own_database(own_server: Stack) -> Iterator[Database]:
    server, name = own_server.up(["postgres"])["postgres"], f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    with connect(with_database(server, name)) as database:
        make_notes(database)
        yield database


def test_a_server_that_restarts_is_found_again(own_database: Database, own_server: Stack) -> None:
    own_server.down()
    with pytest.raises(StoreUnavailable, match=r"cannot connect to postgresql://postgres:\*\*\*@127.0.0.1"):
        own_database.write(lambda tx: tx.run(ADD, id=1, text="lost"))
    own_server.up(["postgres"])
    own_database.write(lambda tx: tx.run(ADD, id=2, text="kept"))
    assert ids(own_database) == [2]


def test_a_server_that_accepts_no_writes_is_unavailable_and_its_connections_are_not_kept(
    own_database: Database, own_server: Stack
) -> None:
    """A primary that has become a replica: the next connection to the same name may lead to the new primary."""
    [data] = own_database.select(Query.of("select current_setting('data_directory') as folder"))
    own_server.down()
    Path(data["folder"], "standby.signal").touch()
    own_server.up(["postgres"])

    def refused(write: Callable[[], object]) -> None:
        [session] = own_database.select(PID)
        with pytest.raises(StoreUnavailable, match="accepts no writes"):
            write()
        assert own_database.select(SESSION, pid=session["pid"]) == []

    refused(lambda: own_database.write(lambda tx: tx.run(ADD, id=1, text="a")))
    refused(lambda: own_database.write(lambda tx: tx.many(ADD, [{"id": 1, "text": "a"}])))
    refused(lambda: own_database.atomic(ADD_RETURNING, id=1, text="a"))
    assert own_database.select(Query.of("select pg_promote() as done"))[0]["done"]
    own_database.write(lambda tx: tx.run(ADD, id=1, text="a"))
    assert ids(own_database) == [1]


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
    proxy.cut_at, proxy.deliver = b"plan_cache_mode", False
    with pytest.raises(StoreUnavailable, match="cannot connect to"):
        connect(proxy.url)
    with connect(proxy.url) as database:
        assert isinstance(database, PostgresDatabase)
        proxy.cut_at, proxy.deliver = b"plan_cache_mode", False
        with pytest.raises(StoreUnavailable, match="cannot connect to"):
            database.new_connection()
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
    with pytest.raises(MissingExtraError, match=r'pip install "agentflow-afl\[postgres\]"'):
        connect("postgresql://me@127.0.0.1/db")


def test_a_forked_child_has_connections_and_presence_of_its_own(postgres_database: str) -> None:
    with python(SCRIPT, "fork", postgres_database) as process:
        report = received(process)
        assert process.wait() == 0
    assert report["child_sees"] == [1, 2]
    assert report["parent_sees"] == [1, 2, 3]
    assert report["parent_as_seen_by_child"] == "alive"
    assert report["parent_id_kept"]
    assert report["child_as_seen_later"] in ("alive", "unknown")


def test_a_new_connection_is_the_callers_own(postgres: Database) -> None:
    assert isinstance(postgres, PostgresDatabase)
    with postgres.new_connection() as listener, postgres.new_connection() as caller:
        listener.execute("listen notifier")
        caller.execute("select pg_notify('notifier', 'ding')")
        assert [note.payload for note in listener.notifies(stop_after=1)] == ["ding"]
        assert isinstance(listener, psycopg.Connection)


def test_a_server_machine_that_disappears_is_noticed_while_it_is_spoken_to(postgres_database: str) -> None:
    with Proxy(postgres_database) as proxy, connect(f"{proxy.url}&tcp_user_timeout=500") as database:
        make_notes(database)
        proxy.vanish()
        with pytest.raises(StoreUnavailable, match="lost during a commit"):
            database.atomic(ADD, id=1, text="never heard")
        database.atomic(ADD, id=2, text="on a new line")
        assert ids(database) == [2]


@pytest.mark.parametrize("where", ["main thread", "another thread"])
def test_a_server_machine_that_disappears_is_noticed_while_it_is_waited_for(
    postgres_database: str, where: str
) -> None:
    short = "keepalives_idle=1&keepalives_interval=1&keepalives_count=1&tcp_user_timeout=500"
    attempts: list[int] = []

    def wait(tx: Transaction) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            tx.one(Query.of("select pg_sleep(600)"))
        tx.run(ADD, id=2, text="on a new line")

    with (
        Proxy(postgres_database) as proxy,
        connect(postgres_database) as observer,
        connect(f"{proxy.url}&{short}") as database,
    ):
        make_notes(database)
        asleep = Query.of("select 1 from pg_stat_activity where wait_event = 'PgSleep'")

        def vanish() -> None:
            until(lambda: bool(observer.select(asleep)))
            proxy.vanish()

        vanishing = threading.Thread(target=vanish)
        vanishing.start()
        on_thread(where, lambda: database.write(wait))
        vanishing.join()
        assert (len(attempts), ids(database)) == (2, [2])


def test_connections_notice_a_machine_that_is_gone_within_half_a_minute(postgres_database: str) -> None:
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)

    def limits(url: str) -> tuple[int, int]:
        with (
            closing(PostgresDatabase(url)) as database,
            database.new_connection() as connection,
            socket.socket(fileno=os.dup(connection.fileno())) as line,
        ):
            assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle, interval, count, sent = (line.getsockopt(socket.IPPROTO_TCP, option) for option in options)
            return idle + interval * count, sent

    assert limits(postgres_database) == (25, 20_000)
    given = "keepalives_idle=60&keepalives_interval=20&keepalives_count=2&tcp_user_timeout=90000"
    assert limits(f"{postgres_database}?{given}") == (100, 90_000)
