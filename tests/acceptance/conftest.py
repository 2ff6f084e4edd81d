"""Fixtures of acceptance tests: processes that start quickly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.warm_processes import WarmProcesses, shared


@pytest.fixture
def warm() -> Iterator[WarmProcesses]:
    """`warm.start("agent", "agents.py", folder=...)`; what still runs after the test is killed."""
    processes = shared()
    yield processes
    processes.end_all()
