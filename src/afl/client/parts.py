"""The parts of the client that are imported when they are first used."""

from __future__ import annotations

import importlib
from typing import Any


def part(name: str) -> Any:
    """A module of the client; MissingExtraError if what it needs is not installed."""
    return importlib.import_module(f"afl.client.{name}")
