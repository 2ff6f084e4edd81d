"""A blocking call of the database from asyncio.

It has a module of its own, so that a short command, which has no event loop, does not import asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from afl.kernel.unraisable import failing

T = TypeVar("T")


async def in_thread(threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """What the call returns on one of the threads; once it has begun, it ends before a cancellation is raised."""
    future = threads.submit(copy_context().run, failing(call))
    outcome = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        if not future.cancel():
            await _settle(outcome)
        raise


async def _settle(outcome: asyncio.Future[Any]) -> None:
    """Wait for the end of a call whatever is canceled meanwhile, and retrieve its exception."""
    while not outcome.done():
        try:
            await asyncio.wait([outcome])
        except asyncio.CancelledError:
            continue
    if not outcome.cancelled():
        outcome.exception()
