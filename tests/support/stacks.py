"""Folders of servers for tests of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from afl.devstack import Stack


@contextmanager
def emptied_folder() -> Iterator[Path]:
    """A private folder; every stack in it is stopped at the end, whatever the test does."""
    place = Path(tempfile.mkdtemp(prefix="afl-devstack-"))
    try:
        yield place
    finally:
        for state in list(place.rglob("stack.json")):
            Stack(state.parent).down(remove=True)
        shutil.rmtree(place, ignore_errors=True)
