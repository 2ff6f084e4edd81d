"""Identifiers: random ones, and ones that sort by the time they were made."""

from __future__ import annotations

import os
import time
import uuid

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def random_id() -> str:
    """A random UUID, as text."""
    return str(uuid.uuid4())


def sortable_id() -> str:
    """26 characters: 48 bits of wall-clock milliseconds, then 80 random bits.

    Later ids sort after earlier ones (to the millisecond), so they double as an index on time.
    """
    number = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))
