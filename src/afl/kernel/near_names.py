"""The known name nearest to an unknown one, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from itertools import islice

_LONGEST = 100
_MOST = 1_000


def near_name(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names; empty if none is near.

    Comparing takes time in proportion to the product of the lengths, and names come from outside: long ones are not
    compared, and of many only the first thousand.
    """
    if len(name) > _LONGEST:
        return ""
    comparable = islice((each for each in known if len(each) <= _LONGEST), _MOST)
    return next(iter(difflib.get_close_matches(name, comparable, n=1)), "")


def some(names: Iterable[str], most: int = 20) -> Iterator[str]:
    """The first of them, and a last entry `...` if there are more."""
    for number, name in enumerate(names):
        if number == most:
            yield "..."
            return
        yield name
