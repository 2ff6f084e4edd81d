"""Loops over things of which one may be bad: it is told once, and the others are worked on all the same."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from afl.kernel.bounds import cut
from afl.kernel.errors import AgentFlowError, StoreCorrupt, StoreUnavailable, StoreVersionError

STORE_TROUBLE = (StoreUnavailable, StoreCorrupt, StoreVersionError)
"""What is wrong with the store as a whole, and so no item's fault."""
_REMEMBERED = 1_000
T = TypeVar("T")


class Isolation:
    """For one loop; several threads may share it.

        for run in due:
            with isolation.item(f"run {run.id}"):
                decide(run)

    An item that fails again and again is told at the first time, and again after it went well in between.
    """

    def __init__(self, log: logging.Logger, who: str) -> None:
        """`who` begins the line in the log: "the monitor"."""
        self._log = log
        self._who = who
        self._told: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def item(self, name: str) -> Iterator[None]:
        """Whatever the block raises ends the block alone, unless it is trouble with the store."""
        try:
            yield
        except STORE_TROUBLE:
            raise
        except Exception as error:
            self._tell(name, error)
        else:
            self._told.pop(name, None)

    async def together(
        self,
        items: Sequence[T],
        work: Callable[[Sequence[T]], Awaitable[object]],
        name: Callable[[T], str],
    ) -> None:
        """Work on all at once; when that fails, on each by itself, so that only the bad ones are left."""
        try:
            await work(items)
        except STORE_TROUBLE:
            raise
        except Exception:
            for item in items:
                with self.item(name(item)):
                    await work([item])

    def _tell(self, name: str, error: Exception) -> None:
        level = logging.DEBUG if name in self._told else logging.ERROR
        defect = None if isinstance(error, AgentFlowError) else error
        self._log.log(level, "%s leaves %s: %s", self._who, cut(name, 200), cut(repr(error)), exc_info=defect)
        self._told[name] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
