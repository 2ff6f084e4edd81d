"""A folder for servers that are ended whatever the test does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.devstack import Stack


@pytest.fixture
def folder() -> Iterator[Path]:
    """A private folder; every stack in it is stopped after the test."""
    place = Path(tempfile.mkdtemp(prefix="afl-devstack-"))
    try:
        yield place
    finally:
        for state in list(place.rglob("stack.json")):
            Stack(state.parent).down(remove=True)
        shutil.rmtree(place, ignore_errors=True)
