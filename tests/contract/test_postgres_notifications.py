"""What other processes hear of commits to a PostgreSQL store, listened to by the driver alone."""

from __future__ import annotations

from contextlib import closing, nullcontext

import psycopg
import pytest
from store_records import RUN, a_run, a_task, begin

from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.history import HistoryEvent, HistoryKind
from afl.runtime.postgres_store import PostgresStore

TIMEOUT = 30.0  # of a test that would hang


@pytest.mark.parametrize("listens", [False, True], ids=["by the commit", "after the commit"])
def test_every_kind_of_commit_notifies(empty_postgres_url: str, listens: bool) -> None:
    """A process that listens itself sends after its commits, others by them."""
    with (
        closing(PostgresStore(empty_postgres_url)) as store,
        store.subscribe(["other"]) if listens else nullcontext(),
        psycopg.connect(empty_postgres_url, autocommit=True) as listener,
    ):
        assert not listens or store.notifier.connected(TIMEOUT)
        listener.execute("listen afl_notify")

        def heard(*topics: str) -> None:
            missing = set(topics)
            for note in listener.notifies(timeout=TIMEOUT):
                missing.discard(note.payload.partition("\t")[0])
                if not missing:
                    return
            raise AssertionError(f"nobody was notified of {missing}")

        run = begin(store)
        event = HistoryEvent(HistoryKind.STEP_STARTED, 1, "s")
        store.commit(IterationChanges(run=run, created_tasks=[a_task("t")], history=[event]))
        heard("tasks:default", f"history:{RUN}")
        store.save_task(a_task("u", state=TaskState.PENDING))
        heard("tasks:default")
        store.insert_run(a_run("another"))
        heard("runs")
        ended = begin(store, "ended")
        ended.state, ended.owner = RunnerState.COMPLETED, ""
        store.commit(IterationChanges(run=ended))
        heard("run:ended")
        assert store.cancel_run(RUN, "enough")
        heard(f"run:{RUN}", f"history:{RUN}", "cancel")
