"""Every transport in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from notifier_fixture import Served, opened


@pytest.fixture(params=["local", "sqlite", "postgres", "nats"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    file = f"sqlite:///{tmp_path}/afl.db"
    if request.param == "local":
        store, doorbell = "memory://", "auto"
    elif request.param == "sqlite":
        store, doorbell = file, "auto"
    elif request.param == "postgres":
        store, doorbell = request.getfixturevalue("empty_postgres_url"), "auto"
    else:
        store, doorbell = file, request.getfixturevalue("nats_url")
    with opened(store, doorbell) as served:
        yield served


@pytest.fixture
def topic() -> str:
    """One that no other test uses: they share servers."""
    return f"t:{uuid4().hex}"
