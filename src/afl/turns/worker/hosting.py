"""A worker in the process that sends a turn: it has the turn from the first moment, and nobody need claim it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from afl.turns.model import Begun


@dataclass(frozen=True, slots=True)
class Hand:
    """A free hand of a worker: in whose name a turn for one of these targets is entered."""

    owner: str
    targets: Sequence[str]
    lease_ms: int


class Host(Protocol):
    """A worker, as those who send turns in its process know it."""

    def offer(self) -> Hand | None:
        """Keep a hand for a turn that is being sent; None when none is free."""

    def accept(self, begun: Begun | None) -> None:
        """The turn that the hand was kept for, of a transaction that has committed; None: it is free again."""
