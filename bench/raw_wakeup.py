"""Wake-ups by the drivers alone: a process that waits, is woken, and reads the row it was woken for.

`python -m bench.raw_wakeup URL [NATS]` waits and prints when it had each row; `Enqueuer` is the other side.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import Callable

import nats
import psycopg

from afl.kernel.database import connect
from afl.kernel.notify import open_notifier

TABLE = "create table if not exists raw_wakeup (id integer primary key, text text)"
CHANNEL = "raw_wakeup"


def _tell() -> None:
    print(time.monotonic_ns(), flush=True)


def wait_sqlite(url: str) -> None:
    """SQLite has no wake-up of its own: the raw one is a watch on the file, and a select."""
    database = connect(url)
    reader = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    last = reader.execute("select coalesce(max(id), 0) from raw_wakeup").fetchone()[0]
    with open_notifier(database).subscribe(["raw"]) as subscription:
        print("ready", flush=True)
        while True:
            subscription.wait(10)
            found = reader.execute("select max(id) from raw_wakeup").fetchone()[0]
            if found and found > last:
                last = found
                _tell()


def wait_postgres(url: str) -> None:
    """LISTEN, and a select."""
    with psycopg.connect(url, autocommit=True) as listener, psycopg.connect(url, autocommit=True) as reader:
        listener.execute(f"listen {CHANNEL}")
        print("ready", flush=True)
        for _ in listener.notifies():
            row = reader.execute("select max(id) from raw_wakeup").fetchone()
            assert row is not None
            _tell()


async def wait_nats(url: str, server: str) -> None:
    """A NATS message, and a select."""
    with psycopg.connect(url, autocommit=True) as reader:
        client = await nats.connect(server)
        subscription = await client.subscribe(CHANNEL)
        await client.flush()
        print("ready", flush=True)
        async for _ in subscription.messages:
            row = reader.execute("select max(id) from raw_wakeup").fetchone()
            assert row is not None
            _tell()


class Enqueuer:
    """Commits one row and wakes whoever waits."""

    def __init__(self, url: str, server: str = "") -> None:
        self.enqueue: Callable[[], None]
        self._loop: asyncio.AbstractEventLoop | None = None
        if url.startswith("sqlite"):
            self._sqlite = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
            self._sqlite.execute("pragma journal_mode = wal")
            self._sqlite.execute("pragma synchronous = full")
            self._sqlite.execute(TABLE)
            self.enqueue = lambda: self._insert_sqlite()
            return
        self._postgres = psycopg.connect(url, autocommit=True)
        self._postgres.execute("create table if not exists raw_wakeup (id bigserial primary key, text text)")
        self.enqueue = self._notify
        if server:
            self._loop = asyncio.new_event_loop()
            self._client = self._loop.run_until_complete(nats.connect(server))
            self.enqueue = self._publish

    def close(self) -> None:
        """Let go of the connections."""
        if self._loop is not None:
            self._loop.run_until_complete(self._client.close())
            self._loop.close()
        (self._sqlite if hasattr(self, "_sqlite") else self._postgres).close()

    def _insert_sqlite(self) -> None:
        self._sqlite.execute("insert into raw_wakeup (text) values ('x')")

    def _notify(self) -> None:
        self._postgres.execute(
            "with row as (insert into raw_wakeup (text) values ('x') returning id) "
            f"select pg_notify('{CHANNEL}', '') from row"
        )

    def _publish(self) -> None:
        assert self._loop is not None
        self._postgres.execute("insert into raw_wakeup (text) values ('x')")
        self._loop.run_until_complete(self._send())

    async def _send(self) -> None:
        await self._client.publish(CHANNEL, b"")
        await self._client.flush()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(wait_nats(sys.argv[1], sys.argv[2]))
    elif sys.argv[1].startswith("sqlite"):
        wait_sqlite(sys.argv[1])
    else:
        wait_postgres(sys.argv[1])
