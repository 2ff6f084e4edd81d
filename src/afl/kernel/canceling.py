"""Ending asyncio tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

_AGAIN_SECONDS = 1.0


async def cancel_and_wait(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until they have ended; what they raise stays with them and is not logged.

    A cancellation may get lost on the way, in a library that catches it at the wrong moment, and a caller that
    canceled once would wait forever. So the tasks are canceled again.
    """
    every = set(tasks)
    left = {task for task in every if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_AGAIN_SECONDS)
    for task in every:
        if not task.cancelled():
            task.exception()  # asyncio logs exceptions that were never retrieved
