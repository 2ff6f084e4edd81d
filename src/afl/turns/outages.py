"""Waiting for a store that is unreachable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from afl.kernel.backoff import Backoff
from afl.kernel.errors import FencedError, StoreUnavailable

T = TypeVar("T")
STORE_BACKOFF = Backoff(0.05, cap=2.0)
_log = logging.getLogger("afl.turns")


async def across_outages(what: str, write: Callable[[], Awaitable[T]]) -> T:
    """What a write returns that must not be lost: a reply of a model, the result of a tool. It is repeated.

    StoreUnavailable: the fence missed after an attempt that may have succeeded, so that the store has to be read.
    """
    outage: StoreUnavailable | None = None
    failures = 0
    while True:
        try:
            return await write()
        except FencedError:
            if outage is None:
                raise
            raise outage from None
        except StoreUnavailable as error:
            outage = error
        failures += 1
        _log.warning("%s waits for the store: %s", what, outage)
        await asyncio.sleep(STORE_BACKOFF.delay(failures))
