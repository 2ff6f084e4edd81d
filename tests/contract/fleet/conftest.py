"""A principal's store on every database it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet_stores import Keeper

from afl.kernel.database import connect


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/p.db"}.get(request.param)
    with connect(url or request.getfixturevalue("postgres_database")) as database:
        yield Keeper(database)
