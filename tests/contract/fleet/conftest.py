"""A principal's store on every database it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet_stores import Keeper

from afl.kernel.database import connect


@pytest.fixture(params=["sqlite", "postgres"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    is_server = request.param == "postgres"
    file = f"sqlite:///{tmp_path}/p.db"
    with request.getfixturevalue("kept_postgres").take() if is_server else connect(file) as database:
        yield Keeper(database)
