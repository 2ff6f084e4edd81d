"""Exponential backoff: how long to wait before the next attempt. Pure; chance is passed in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from afl.kernel.errors import InputError


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of `base`, `base * factor`, `base * factor**2` ... never above `cap`.

    The unit is the caller's: seconds in, seconds out.
    """

    base: float
    factor: float = 2.0
    cap: float = math.inf

    def __post_init__(self) -> None:
        if not self.base >= 0 or math.isinf(self.base):
            raise InputError(f"backoff base is {self.base!r}; expected a finite number of at least 0")
        if not self.factor >= 1 or math.isinf(self.factor):
            raise InputError(f"backoff factor is {self.factor!r}; expected a finite number of at least 1")
        if not self.cap >= 0:
            raise InputError(f"backoff cap is {self.cap!r}; expected a number of at least 0")

    def delay(self, attempt: int, random: Random | None = None) -> float:
        """The wait after the `attempt`-th failure, counted from 1.

        With `random` the wait is drawn evenly from 0 to that value (full jitter), so that many clients which
        failed together do not come back together.
        """
        if attempt < 1:
            raise InputError(f"backoff attempt is {attempt}; attempts are counted from 1")
        ceiling = min(self.cap, self._grown(attempt - 1))
        return ceiling if random is None else random.uniform(0, ceiling)

    def delays(self, random: Random | None = None) -> Iterator[float]:
        """The waits after the first, second, third ... failure, without end."""
        attempt = 0
        while True:
            attempt += 1
            yield self.delay(attempt, random)

    def _grown(self, times: int) -> float:
        try:
            return self.base * self.factor**times
        except OverflowError:  # a power too large for a float is above any cap
            return math.inf if self.base else 0.0
