"""Threads for what may take long, apart from those of everybody else.

Whoever waits for the end of a run, or for a part whose server hangs, must not keep others from the list of runs.
"""

from __future__ import annotations

import anyio

from afl.operations.operation import Needs, Operation

_WAITING = 128
_PART = 16
_PARTS = (Needs.FLEET, Needs.REDIS)


class ThreadLimits:
    """How many threads each kind of operation may take; made inside the loop that uses them."""

    def __init__(self) -> None:
        self._limiters: dict[str, anyio.CapacityLimiter] = {}

    def of(self, operation: Operation) -> anyio.CapacityLimiter | None:
        """For an operation that may take long; None: those of everybody."""
        if operation.waits:
            return self._made("waiting", _WAITING)
        return self._made(operation.needs, _PART) if operation.needs in _PARTS else None

    def _made(self, name: str, most: int) -> anyio.CapacityLimiter:
        if name not in self._limiters:
            self._limiters[name] = anyio.CapacityLimiter(most)
        return self._limiters[name]
