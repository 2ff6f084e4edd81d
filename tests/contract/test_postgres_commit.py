"""How a commit travels to PostgreSQL; what it promises is in `test_store_commit.py`."""

from __future__ import annotations

import pytest
from store_records import begin

from afl.runtime.postgres_store import PostgresStore


def test_without_a_pipeline_a_small_commit_is_one_call(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a pooler single statements would be a round trip each."""
    store = PostgresStore(empty_postgres_url)
    monkeypatch.setattr(store.database, "pipelines", False)
    monkeypatch.setattr(store.database, "together", lambda statements: pytest.fail("one by one"))
    run = begin(store)
    assert store.get_run(run.workflow_id) is not None
    store.close()
