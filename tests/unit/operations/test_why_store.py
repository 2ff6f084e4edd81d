"""Why nothing moves at all: a process keeps all others from writing to the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from operated_store import begin, double
from support.processes import let_go, stopped_writer

from afl.operations.reason.reasons import Outlook
from afl.operations.reason.why import why
from afl.runtime.sqlite_store import SqliteStore


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/afl.db"


@pytest.fixture
def sqlite(url: str) -> Iterator[SqliteStore]:
    opened = SqliteStore(url)
    yield opened
    opened.close()


def test_a_stopped_process_is_the_cause_until_it_goes_on(sqlite: SqliteStore, url: str) -> None:
    run = begin(sqlite)
    with stopped_writer(url) as process:
        reason = why(sqlite, run)
        assert (reason.cause.code, reason.outlook) == ("store-locked", Outlook.STANDS)
        assert [each.kind for each in reason.chain] == ["run", "step", "task", "store"]
        assert f"process {process.pid} (" in reason.cause.sentence
        assert reason.cause.action.startswith(f"Continue it with `kill -CONT {process.pid}`")
        let_go(process)
        assert why(sqlite, run).cause.code == "task-unserved"


def test_what_is_over_is_not_explained_by_it(sqlite: SqliteStore, url: str) -> None:
    run = begin(sqlite, Double=double, Half=double)
    with stopped_writer(url):
        assert why(sqlite, run).code == "run-completed"
