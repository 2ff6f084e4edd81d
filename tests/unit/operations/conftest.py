"""Stores for operations: one of this process alone, and one that outlives its processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.lives import Lives

from afl.runtime.memory_store import MemoryStore


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


@pytest.fixture
def lives() -> Iterator[Lives]:
    """Each life sees those before it as dead."""
    made = Lives()
    yield made
    made.end()


@pytest.fixture
def unseen() -> Iterator[Lives]:
    """Nothing can be said about the lives before but by their leases."""
    made = Lives(proven=False)
    yield made
    made.end()
