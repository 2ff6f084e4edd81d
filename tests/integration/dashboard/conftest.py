"""A dashboard on a store of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from support.dashboards import client_of, settings_for


@pytest.fixture
def store_url(empty_sqlite_url: str) -> str:
    return empty_sqlite_url


@pytest.fixture
def client(store_url: str) -> Iterator[TestClient]:
    """Of a dashboard that demands no token."""
    with client_of(settings_for(store_url)) as client:
        yield client
