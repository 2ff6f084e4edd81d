"""Loops in which one item may fail: the failure is logged once, and the other items are processed."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from afl.kernel.bounds import cut
from afl.kernel.errors import AgentFlowError, StoreCorrupt, StoreUnavailable, StoreVersionError

STORE_TROUBLE = (StoreUnavailable, StoreCorrupt, StoreVersionError)
"""Failures of the store as a whole, not of an item."""
_REMEMBERED = 1_000
T = TypeVar("T")


class Isolation:
    """For one loop; several threads may share it.

        for run in due:
            with isolation.item(f"run {run.id}"):
                decide(run)

    An item that fails repeatedly is logged the first time, and again after a success in between.
    """

    def __init__(self, log: logging.Logger, who: str) -> None:
        """`who` begins the line in the log: "the monitor"."""
        self._log = log
        self._who = who
        self._logged: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def item(self, name: str) -> Iterator[None]:
        """An exception ends this block only, unless the store itself is in trouble."""
        try:
            yield
        except STORE_TROUBLE:
            raise
        except Exception as error:
            self._log_failure(name, error)
        else:
            self._logged.pop(name, None)

    async def batch(
        self,
        items: Sequence[T],
        work: Callable[[Sequence[T]], Awaitable[object]],
        name: Callable[[T], str],
    ) -> None:
        """Process all at once; if that fails, one by one, so that only the bad ones are left."""
        try:
            await work(items)
        except STORE_TROUBLE:
            raise
        except Exception:
            for item in items:
                with self.item(name(item)):
                    await work([item])

    def _log_failure(self, name: str, error: Exception) -> None:
        level = logging.DEBUG if name in self._logged else logging.ERROR
        defect = None if isinstance(error, AgentFlowError) else error
        self._log.log(level, "%s leaves %s: %s", self._who, cut(name, 200), cut(repr(error)), exc_info=defect)
        self._logged[name] = None
        if len(self._logged) > _REMEMBERED:
            self._logged.popitem(last=False)
