"""Fixtures for every test: real servers, started once per session. One that cannot start fails the test."""

from __future__ import annotations

import gc
import logging
import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from support.authorities import trust_one_authority
from support.chromium import MISSING, find_chromium, is_required
from support.databases import (
    EmptyMongo,
    EmptyPostgres,
    created_database,
    fresh_mongo_database,
    fresh_postgres_database,
    spare_disk_and_time,
    spare_time,
    with_database,
)
from support.kept import KeptDatabases
from support.parallel import ParallelRun, longest_first
from support.properties import be_the_usual
from support.scratch import disk, keep_files_in_memory
from support.servers import SessionServers
from support.timing import FixtureTimes, RunTimes
from support.warm_processes import WarmSession, share_in_session

from afl.kernel import codec, redaction, telemetry
from afl.runtime.sqlite_store import SqliteStore

_SERVERS = pytest.StashKey[SessionServers]()
gc.disable()  # until all is collected, which makes much and drops little
be_the_usual()  # before any test is read
keep_files_in_memory()  # before any folder is made
trust_one_authority()  # before any process is started


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, help="run the tests in so many processes")


def pytest_configure(config: pytest.Config) -> None:
    # Started by a script in the background, a process ignores SIGINT, and so would all that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_required() and find_chromium() is None:
        raise pytest.UsageError(f"AFL_BROWSER=required, but these cannot run: {MISSING}")
    fixture_times = FixtureTimes()
    config.pluginmanager.register(fixture_times)
    config.pluginmanager.register(RunTimes(fixture_times), "afl-run-times")
    config.stash[_SERVERS] = servers = SessionServers.of_this_process()
    share_in_session(WarmSession(Path(f"{servers.folder}-warm"), servers.owner.pid))
    if (processes := config.getoption("processes")) > 1:
        config.pluginmanager.register(ParallelRun(processes, fixture_times))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """AFL_SHUFFLE=<number> runs the files, and the tests of each file, in another order; the same for all workers."""
    items.sort(key=lambda item: longest_first(item.nodeid))
    if seed := os.environ.get("AFL_SHUFFLE"):
        order = random.Random(seed)
        files = sorted({item.path for item in items})
        order.shuffle(files)
        place = {file: number for number, file in enumerate(files)}
        items.sort(key=lambda item: (place[item.path], order.random()))


def pytest_collection_finish() -> None:
    """What was collected stays to the end: no garbage collection need look at it (4 % of the processor time).

    The tests make little that only a collection frees, so these may be rare (another 4 %).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    servers = config.stash.get(_SERVERS, None)
    if servers is not None:
        servers.end()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if find_chromium() is None:
        terminalreporter.write_line(f"NOT RUN: {MISSING}", red=True, bold=True)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command sets up logging for its process; the tests of many commands share one."""
    logger = logging.getLogger("afl")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture(autouse=True)
def _as_a_process_begins() -> None:
    """Some things hold until a process ends: who is told of figures, and how large a value may be."""
    telemetry.install(None)
    codec.set_payload_limit(codec.MAX_PAYLOAD_BYTES)
    redaction.forget_secrets()


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> SessionServers:
    return pytestconfig.stash[_SERVERS]


@pytest.fixture(scope="session")
def postgres_url(servers: SessionServers) -> str:
    """A PostgreSQL server's database `postgres`; most tests want `postgres_database` instead."""
    url = servers.url("postgres")
    if servers.starts("postgres"):
        spare_disk_and_time(url)
    return url


@pytest.fixture(scope="session")
def redis_url(servers: SessionServers) -> str:
    """A Redis server shared by all tests: use a key prefix of your own."""
    return servers.url("redis")


@pytest.fixture(scope="session")
def nats_url(servers: SessionServers) -> str:
    """A NATS server with JetStream shared by all tests: use stream and subject names of your own."""
    return servers.url("nats")


@pytest.fixture(scope="session")
def mongo_url(servers: SessionServers) -> str:
    """A MongoDB replica set; most tests want `mongo_database_url` instead."""
    url = servers.url("mongo")
    if servers.starts("mongo"):
        spare_time(url)
    return url


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("template") / "afl.db"
    SqliteStore(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def empty_sqlite_url(_sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of an SQLite file with the runtime's tables: a copy takes a tenth of the time of making them."""
    return f"sqlite:///{shutil.copy(_sqlite_template, tmp_path)}"


@pytest.fixture
def folder_on_disk() -> Iterator[Path]:
    """An empty folder on the disk: `tmp_path` may be in memory, where a commit takes no time."""
    with TemporaryDirectory(dir=disk()) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the server for what is done between tests."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        yield admin


@pytest.fixture
def postgres_database(postgres_url: str, postgres_admin: psycopg.Connection[Any]) -> Iterator[str]:
    """The URL of a fresh PostgreSQL database without tables, dropped after the test."""
    with created_database(postgres_admin) as name:
        yield with_database(postgres_url, name)


@pytest.fixture(scope="session")
def shared_postgres(postgres_url: str) -> Iterator[EmptyPostgres]:
    with fresh_postgres_database(postgres_url) as url, closing(EmptyPostgres(url)) as shared:
        yield shared


@pytest.fixture
def empty_postgres_url(shared_postgres: EmptyPostgres) -> str:
    """The URL of a PostgreSQL database without rows: the tables of earlier tests are there, which saves time."""
    return shared_postgres.emptied()


@pytest.fixture(scope="session")
def _kept_postgres(shared_postgres: EmptyPostgres) -> Iterator[KeptDatabases]:
    with closing(KeptDatabases(shared_postgres.emptied())) as kept:
        yield kept


@pytest.fixture
def kept_postgres(_kept_postgres: KeptDatabases, empty_postgres_url: str) -> KeptDatabases:
    """Databases without rows that may be open already: for tests of what a store does, not of how it is opened."""
    return _kept_postgres


@pytest.fixture
def mongo_database_url(mongo_url: str) -> Iterator[str]:
    """A MongoDB URL with a database name of its own, dropped after the test."""
    with fresh_mongo_database(mongo_url) as url:
        yield url


@pytest.fixture(scope="session")
def _shared_mongo(mongo_url: str) -> Iterator[EmptyMongo]:
    with fresh_mongo_database(mongo_url) as url, closing(EmptyMongo(url)) as shared:
        yield shared


@pytest.fixture
def empty_mongo_url(_shared_mongo: EmptyMongo) -> str:
    """The URL of a MongoDB database without documents; collections and indexes of earlier tests are there."""
    return _shared_mongo.emptied()
