"""Identifiers: random ones, and ones that sort by the time they were made."""

from __future__ import annotations

import os
import threading
import time
import uuid

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LETTERS = frozenset(_ALPHABET)
_PAIRS = [one + other for one in _ALPHABET for other in _ALPHABET]
_SHIFTS = range(110, -1, -10)
_guard = threading.Lock()
_last = 0
_last_head = -1
_head_text = ""


def random_id() -> str:
    """A random UUID, as text."""
    return str(uuid.uuid4())


def sortable_id() -> str:
    """26 characters: 48 bits of wall-clock milliseconds, then 80 random bits.

    Ids made by one process sort in the order in which they were made; those of different processes to the
    millisecond. So they double as an index on time.
    """
    global _last, _last_head, _head_text
    now = time.time_ns() // 1_000_000
    with _guard:
        _last = _last + 1 if now <= _last >> 80 else now << 80 | int.from_bytes(os.urandom(10), "big")
        head = _last >> 10
        if head != _last_head:  # of those made in the same millisecond nearly all have the same
            _head_text = "".join([_PAIRS[head >> shift & 1023] for shift in _SHIFTS])
            _last_head = head
        return _head_text + _PAIRS[_last & 1023]


def is_sortable(name: str) -> bool:
    """Whether it has the form of a sortable id."""
    return len(name) == 26 and set(name) <= _LETTERS


def time_of(name: str) -> int | None:
    """When a sortable id was made, in milliseconds since 1970; it may have a word before it. None for other ids."""
    tail = name[-26:]
    if not is_sortable(tail):
        return None
    number = 0
    for letter in tail[:10]:
        number = number << 5 | _ALPHABET.index(letter)
    return number


def _forget_last() -> None:
    """A forked child must not count on from where its parent does."""
    global _last, _guard
    _last, _guard = 0, threading.Lock()


os.register_at_fork(after_in_child=_forget_last)
