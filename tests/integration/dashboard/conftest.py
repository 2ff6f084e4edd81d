"""A dashboard on a store of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.dashboards import client_of, settings_for


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/afl.db"


@pytest.fixture
def client(store_url: str) -> Iterator[TestClient]:
    """Of a dashboard that demands no token."""
    with client_of(settings_for(store_url)) as client:
        yield client
