"""How an idle worker on an SQLite file comes by its work: it asks while the commit that brings it is under way."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.agents import SECONDS, Recorder, serving

from afl.kernel.database.sqlite import SqliteDatabase
from afl.kernel.notify.sqlite import SqliteTransport
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.runner.service import RunnerConfig, RunnerService
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler import Handlers


class Asked(Recorder):
    """Tells of claims as they begin; None stands for one that has no answer yet."""

    def __init__(self, url: str) -> None:
        super().__init__(open_store(url))
        self.claims: list[list[str] | None] = []
        self.found_none = 0

    def next_due(self, *args: Any, **options: Any) -> int | None:
        """What a worker asks for when there is nothing to claim."""
        due = self._store.next_due(*args, **options)
        self.found_none += 1
        self.look_again()
        return due

    def claim_tasks(self, *args: Any, **options: Any) -> list[TaskDefinition]:
        number = len(self.claims)
        self.claims.append(None)
        self.look_again()
        found = self._store.claim_tasks(*args, **options)
        self.claims[number] = [task.uuid for task in found]
        self.look_again()
        return found


@contextmanager
def committing(path: Path, uuid: str) -> Iterator[sqlite3.Connection]:
    """Somebody brings a task: it is in the log, and not committed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        columns = [row[1] for row in writer.execute("pragma table_info(afl_tasks)") if row[1] != "seq"]
        mine = {"uuid": f"'{uuid}'", "state": "'pending'"}
        values = ", ".join(mine.get(name, name) for name in columns)
        writer.execute("pragma cache_size = 1")
        writer.execute("begin immediate")
        writer.execute(
            f"insert into afl_tasks ({', '.join(columns)}) select {values} from afl_tasks where uuid = 'model'"
        )
        writer.execute("create table ballast (text text)")
        before = os.path.getsize(f"{path}-wal")
        while os.path.getsize(f"{path}-wal") <= before:
            writer.execute("insert into ballast values (?)", ["x" * 4000])
        yield writer


def test_an_idle_worker_asks_while_the_commit_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afl.runtime.worker.worker._SWEEP_SECONDS", 3600.0)  # no look without a notification
    for place in (
        "afl.runtime.stores.sql_store.claims._QUIET_SECONDS",
        "afl.kernel.notify.sqlite.QUIET_SECONDS",
    ):
        monkeypatch.setattr(place, -1.0)  # it is quiet at any time
    monkeypatch.setattr(
        SqliteTransport, "deliver_all", lambda self: None
    )  # and no notification after a commit, either
    path, handled = tmp_path / "afl.db", threading.Event()
    store = Asked(f"sqlite:///{path}")
    store.save_task(TaskDefinition("model", "ns.Ping", "", "", "", "", state="canceled"))
    config = RunnerConfig(http=False, max_concurrent=1, poll_interval_ms=3_600_000)
    handlers = Handlers.of({"ns.Ping": lambda: handled.set()})
    service = RunnerService(store.api, Evaluator(store.api), config, handlers=handlers)
    with serving(service, store):
        store.until(lambda _: store.found_none >= 2)  # at the start, and after its first sweep
        with committing(path, "brought") as writer:
            store.until(lambda _: None in store.claims)
            asked = store.claims.index(None)
            assert not handled.is_set()
            writer.execute("commit")
            assert handled.wait(SECONDS)
        assert store.claims[asked] == ["brought"], "whoever asked early has it without asking again"
    store.close()


@pytest.mark.parametrize(("quiet", "asks_to_write"), [(-1.0, True), (3600.0, False)])
def test_who_has_just_asked_looks_before_asking_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: float, asks_to_write: bool
) -> None:
    store = SqliteStore(f"sqlite:///{tmp_path}/afl.db")
    assert store.claim_task(["F"]) is None
    monkeypatch.setattr("afl.runtime.stores.sql_store.claims._QUIET_SECONDS", quiet)
    seen: list[str] = []
    assert isinstance(store.database, SqliteDatabase)
    connection = store.database._file.writer._connection
    assert connection is not None
    connection.set_trace_callback(seen.append)
    before = store._asked
    assert store.claim_task(["F"]) is None
    assert bool(seen) == asks_to_write
    assert store._asked > before, "a look counts, too"
    store.save_task(TaskDefinition("t", "ns.F", "", "", "", ""))
    assert store.claim_task(["F"]) is not None
    store.close()
