"""Trying again while the store fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from afl.kernel.backoff import Backoff
from afl.kernel.errors import StoreError

RETRY = Backoff(0.1, cap=5.0)

_log = logging.getLogger(__name__)


def until_done(work: Callable[[], object], until: float) -> None:
    """Do it, and again while the store fails, as long as there is time (`until`, on the monotonic clock)."""
    failures = 0
    while True:
        try:
            work()
            return
        except StoreError as error:
            failures += 1
            wait = min(RETRY.delay(failures), until - time.monotonic())
            if wait <= 0:
                raise
            _log.warning("the store fails, trying again: %s", error)
            time.sleep(wait)
