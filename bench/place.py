"""Where the figures are taken: a folder, and real servers that start when a figure asks for them."""

from __future__ import annotations

import itertools
from pathlib import Path

from afl.devstack import Stack


class Place:
    """Gone with everything in it when the measuring ends."""

    def __init__(self, folder: Path, stack: Stack) -> None:
        self.folder = folder
        self._stack = stack
        self._numbers = itertools.count()

    def sqlite(self) -> str:
        """The URL of a new SQLite file."""
        return f"sqlite:///{self.folder}/bench-{next(self._numbers)}.db"

    def server(self, service: str) -> str:
        """The URL of a server: postgres, redis, nats or mongo."""
        return self._stack.up([service])[service]
