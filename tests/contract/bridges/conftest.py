"""Stores that bridges are tried on: the file and the server, for the turns of agents are there as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crossings import Crossing

from afl.runtime.store import open_store


@pytest.fixture(params=["sqlite", "postgres"])
def crossing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crossing]:
    url: str = (
        f"sqlite:///{tmp_path}/bridges.db"
        if request.param == "sqlite"
        else request.getfixturevalue("empty_postgres_url")
    )
    store = open_store(url)
    with Crossing(store, url) as crossing:
        yield crossing
    store.close()
