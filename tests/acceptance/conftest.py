"""Fixtures of acceptance tests: processes that start quickly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.warm_processes import WarmProcesses


@pytest.fixture(scope="session")
def warm_parent() -> Iterator[WarmProcesses]:
    with WarmProcesses() as processes:
        yield processes


@pytest.fixture
def warm(warm_parent: WarmProcesses) -> Iterator[WarmProcesses]:
    """`warm.start("agent", "agents.py", folder=...)`; what still runs after the test is killed."""
    yield warm_parent
    warm_parent.end_all()
