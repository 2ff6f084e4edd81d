"""What the threads of this process have in hand, and what they are just taking.

Several workers and runners of one process claim under one name. Whoever wants to know whether a claim of that name is
anybody's asks here.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakSet

Claim = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Holding:
    """What is in hand: claims of tasks (uuid, epoch), and runs by id."""

    tasks: frozenset[Claim] = frozenset()
    runs: frozenset[str] = frozenset()


class Holder(Protocol):
    """Whoever has something in hand."""

    def holding(self) -> Holding:
        """What it is; from any thread."""


class claiming:
    """Within this block claims are made that no holder knows of before its end."""

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer = _begun.get(threading.get_ident())
        if self._outer is None:
            _begun[threading.get_ident()] = time.monotonic()

    def __exit__(self, *error: object) -> None:
        if self._outer is None:
            _begun.pop(threading.get_ident(), None)


def claiming_since() -> float:
    """When the oldest of the blocks under way began; infinity without any."""
    return min(list(_begun.values()), default=math.inf)


def register(holder: Holder) -> None:
    """Ask this one as well, as long as it is there."""
    with _guard:
        _holders.add(holder)


def in_hand() -> Holding:
    """What anybody in this process has in hand."""
    with _guard:
        holders = list(_holders)
    parts = [holder.holding() for holder in holders]
    return Holding(
        frozenset().union(*(each.tasks for each in parts)), frozenset().union(*(each.runs for each in parts))
    )


_guard = threading.Lock()
_holders: WeakSet[Holder] = WeakSet()
_begun: dict[int, float] = {}  # by thread
