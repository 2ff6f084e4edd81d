"""A folder for servers that are ended whatever the test does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stacks import emptied_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A private folder; every stack in it is stopped after the test."""
    with emptied_folder() as place:
        yield place
