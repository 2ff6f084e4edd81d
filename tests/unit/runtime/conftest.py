"""Fixtures of the runtime's unit tests: a store in memory and what runs on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from engine_bench import Engine

from afl.runtime.memory_store import MemoryStore


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


@pytest.fixture
def engine(store: MemoryStore) -> Engine:
    return Engine(store)
