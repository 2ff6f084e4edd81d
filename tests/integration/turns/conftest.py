"""Both ways to run turns: SQLite with the local bus, PostgreSQL with NATS."""

from __future__ import annotations

import pytest
from support.turns_office import Place


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "sqlite":
        return Place("memory://", None)
    return Place(request.getfixturevalue("empty_postgres_url"), request.getfixturevalue("nats_url"))
