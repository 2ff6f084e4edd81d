"""Who lives, told by session locks: real processes, real deaths, and servers that come and go."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from conversation import SCRIPT, received, tell, until
from support.postgres_proxy import Proxy
from support.processes import python

from afl.devstack import Stack, temporary_stack
from afl.kernel.database import Database, Query, connect
from afl.kernel.database.postgres import PostgresDatabase
from afl.kernel.database.postgres_session import Session
from afl.kernel.errors import StoreUnavailable
from afl.kernel.lease import RUN_LEASE_MS
from afl.kernel.presence import Life
from afl.kernel.presence.postgres import APART_SECONDS, STALE_SECONDS, SessionPresence

Disaster = Callable[[Stack, Database], None]


class Prober:
    """A presence whose clock the test moves, so that a second passes without waiting."""

    def __init__(self, database: Database) -> None:
        assert isinstance(database, PostgresDatabase)
        self.time = 0.0
        self.presence = SessionPresence(database, lambda: self.time)
        self.id = self.presence.id

    def proof(self, owner: str, after: float = 0.0) -> Life:
        self.time += after
        return self.presence.proof(owner)

    def proof_of_the_gone(self, owner: str) -> Life:
        """The first look that finds the lock free: the server notices a death within moments."""
        until(lambda: self.presence.proof(owner) is not Life.ALIVE)
        return self.presence.proof(owner)


@pytest.fixture
def prober(postgres: Database) -> Iterator[Prober]:
    found = Prober(postgres)
    yield found
    found.presence.close()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A server of these tests' own, to be restarted and crashed; each begins with `up`."""
    with temporary_stack() as own:
        yield own


def test_a_living_process_is_alive_and_a_killed_one_dead_at_the_second_look(
    prober: Prober, postgres_database: str
) -> None:
    with python(SCRIPT, "present", postgres_database) as process:
        other = received(process)
        assert prober.proof(other) is Life.ALIVE
        assert re.fullmatch(rf"process {process.pid} on \S+", prober.presence.describe(other))
        process.kill()
        process.wait()
    assert prober.proof_of_the_gone(other) is Life.UNKNOWN
    assert prober.proof(other, APART_SECONDS / 2) is Life.UNKNOWN
    assert prober.proof(other, APART_SECONDS / 2) is Life.DEAD
    assert prober.proof(other) is Life.DEAD
    assert prober.proof(prober.id) is Life.ALIVE


def test_a_forked_child_does_not_keep_its_parent_alive(prober: Prober, postgres_database: str) -> None:
    with python(SCRIPT, "orphan", postgres_database) as process:
        other = received(process)
        assert prober.proof(other) is Life.ALIVE
        process.kill()
        process.wait()
        assert prober.proof_of_the_gone(other) is Life.UNKNOWN
        assert prober.proof(other, APART_SECONDS) is Life.DEAD


def test_one_that_left_in_order_is_dead_too(prober: Prober, postgres_database: str) -> None:
    with python(SCRIPT, "present", postgres_database) as process:
        other = received(process)
        tell(process)
        assert received(process) == "left"
    assert prober.proof_of_the_gone(other) is Life.UNKNOWN
    assert prober.proof(other, APART_SECONDS) is Life.DEAD


def test_a_first_look_long_ago_counts_for_nothing(prober: Prober, postgres_database: str) -> None:
    with connect(postgres_database) as database:
        other = database.presence.id
    assert prober.proof_of_the_gone(other) is Life.UNKNOWN
    assert prober.proof(other, STALE_SECONDS + 1) is Life.UNKNOWN
    assert prober.proof(other, APART_SECONDS) is Life.DEAD


def test_an_id_nobody_has_is_unknown(prober: Prober) -> None:
    assert [prober.proof("nobody", after) for after in (0, 2, 2)] == [Life.UNKNOWN] * 3
    assert prober.presence.describe("nobody") == "nobody"


def test_two_databases_of_one_process_are_two_lives(prober: Prober, postgres_database: str) -> None:
    with connect(postgres_database) as database:
        assert database.presence.id != prober.id
        assert database.presence.proof(prober.id) is Life.ALIVE
        assert prober.proof(database.presence.id) is Life.ALIVE


def test_behind_a_pooler_everything_is_unknown(postgres_database: str, prober: Prober) -> None:
    with Proxy(postgres_database, pooler=True) as pooler, connect(pooler.url) as database:
        assert isinstance(database, PostgresDatabase)
        assert database.pooled
        mine = database.presence.id
        assert database.presence.proof(mine) is Life.ALIVE
        assert database.presence.proof(prober.id) is Life.UNKNOWN
        assert [prober.proof(mine, after) for after in (0, 2)] == [Life.UNKNOWN] * 2
    with Proxy(postgres_database) as honest, connect(honest.url) as database:
        assert isinstance(database, PostgresDatabase)
        assert not database.pooled


def prober_once_up(database: Database) -> Prober:
    while True:
        with suppress(StoreUnavailable):
            return Prober(database)


def restart(stack: Stack, database: Database) -> None:
    stack.down()
    stack.up(["postgres"])


def crash(stack: Stack, database: Database) -> None:
    """Kill one backend: the server then drops every session, and keeps its start time.

    Returns when it accepts connections again. It does so only once every session of before has ended: until then
    a look might still find locks that were taken before the crash.
    """
    assert isinstance(database, PostgresDatabase)
    victim = database.new_connection()
    row = victim.execute("select pg_backend_pid() as pid").fetchone()
    assert row is not None
    witness = Session(database.new_connection())
    os.kill(row["pid"], signal.SIGKILL)
    until(lambda: not witness.is_usable)  # the crash has reached the other sessions
    witness.connection.close()
    victim.close()
    until(lambda: accepts_connections(database))


def accepts_connections(database: PostgresDatabase) -> bool:
    try:
        database.new_connection().close()
    except StoreUnavailable:
        return False
    return True


@pytest.mark.parametrize("disaster", [restart, crash])
def test_no_disaster_of_the_server_makes_the_living_look_dead(stack: Stack, disaster: Disaster) -> None:
    url = stack.up(["postgres"])["postgres"]
    with connect(url) as database, python(SCRIPT, "present", url) as process:
        prober = Prober(database)
        other = received(process)
        assert prober.proof(other) is Life.ALIVE
        before = prober.time
        disaster(stack, database)
        seen = set()
        while Life.ALIVE not in seen:
            with suppress(StoreUnavailable):
                seen.add(prober.proof(other, after=APART_SECONDS))
        assert Life.DEAD not in seen
        process.kill()
        process.wait()
        until(lambda: prober.proof(other, after=APART_SECONDS) is Life.DEAD)
        assert prober.time - before >= RUN_LEASE_MS / 1000  # who was cut off does not judge others at once
        prober.presence.close()


@pytest.mark.parametrize("disaster", [restart, crash])
def test_one_who_died_with_the_server_is_left_to_its_lease(stack: Stack, disaster: Disaster) -> None:
    url = stack.up(["postgres"])["postgres"]
    with connect(url) as database, connect(url) as second:
        other = second.presence.id
        second.close()
        disaster(stack, database)
        prober = prober_once_up(database)
        assert [prober.proof(other, after) for after in (0, 2, 2)] == [Life.UNKNOWN] * 3
        prober.presence.close()


def test_one_whose_session_is_ended_takes_its_lock_again(prober: Prober, postgres: Database) -> None:
    assert isinstance(postgres, PostgresDatabase)
    other = SessionPresence(postgres, lambda: 0.0)
    name = other.id
    session = other._session
    assert session is not None
    pid = session._connection.info.backend_pid
    postgres.select(Query.of("select pg_terminate_backend(cast(:pid as integer), 10000)"), pid=pid)
    until(lambda: session.number > 0 and session._settled_at is not None)
    assert prober.proof(name) is Life.ALIVE
    assert not session.settled(RUN_LEASE_MS / 1000 - 1)  # who was cut off does not judge others at once
    assert session.settled(RUN_LEASE_MS / 1000)
    other.close()


def test_rows_of_those_long_gone_are_forgotten(
    prober: Prober, postgres: Database, postgres_database: str
) -> None:
    age = Query.of("update afl_presence set since = since - interval '2 days'")
    with connect(postgres_database) as gone:
        assert gone.presence.id
    postgres.atomic(age)
    rows = Query.of("select id from afl_presence")
    assert len(postgres.select(rows)) == 2
    with connect(postgres_database) as fresh:
        mine = fresh.presence.id
        while {row["id"] for row in postgres.select(rows)} != {prober.id, mine}:
            fresh.presence.close()
            mine = fresh.presence.id
            postgres.atomic(age)
        assert prober.proof(mine) is Life.ALIVE
