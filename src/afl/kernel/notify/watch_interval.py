"""When to look next at a file that tells of its writes, but not when they count."""

from __future__ import annotations

import math
from dataclasses import dataclass

FIRST_SECONDS = 0.0001
GROWTH = 1.25
LONGEST_SECONDS = 1.0
SPACING_SECONDS = 0.002
BURST_LOOKS = 50


@dataclass(frozen=True, slots=True)
class Rest:
    """First some seconds asleep, whatever happens; then some more that a write ends."""

    asleep: float
    listening: float


class Pace:
    """Hardly any rest after a write, then ever more, up to a second.

    A commit shows only when its bytes are on the disk, and nothing tells of that moment. Rests that grow in
    proportion find it late in proportion, on a fast disk as on one that takes seconds. Writes that never stop
    do not make looks that never stop: on average they keep a distance, whatever is written.
    """

    def __init__(self) -> None:
        self._step = FIRST_SECONDS
        self._written = True
        self._even = -math.inf  # when the looks so far would have ended, had they kept their distance

    def written(self) -> None:
        """A file was written to before the next look."""
        self._written = True
        self._step = FIRST_SECONDS

    def looked(self, now: float, *, changed: bool) -> Rest:
        """How to rest after a look.

        Commits come one after another, so a change that no write preceded since the look before leaves nothing
        to wait for: the next commit begins to write after it, and will be told.
        """
        if changed and not self._written:
            self._step = LONGEST_SECONDS
        self._written = False
        step, self._step = self._step, min(self._step * GROWTH, LONGEST_SECONDS)
        self._even = max(self._even, now - BURST_LOOKS * SPACING_SECONDS) + SPACING_SECONDS
        asleep = max(step % 0.001, self._even - now)  # one can listen for whole milliseconds only
        return Rest(asleep, max(0.0, step - asleep))
