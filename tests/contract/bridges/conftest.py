"""Stores that bridges are tried on: the file and the server, for the turns of agents are there as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.crossings import Crossing

from afl.runtime.store import open_store


@pytest.fixture(params=["sqlite", "postgres"])
def crossing(request: pytest.FixtureRequest) -> Iterator[Crossing]:
    url: str = request.getfixturevalue(f"empty_{request.param}_url")
    store = open_store(url)
    with Crossing(store, url) as crossing:
        yield crossing
    store.close()
