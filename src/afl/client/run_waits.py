"""Waiting for a run and for its log through a client that may be remote: by repeated long polls.

Who waits tries again while the store or the server is away; who asks is told.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TypeVar

from afl.client.store_client import OperationsClient
from afl.kernel.errors import InputError, StoreUnavailable, Throttled
from afl.operations.problems import ServerAway
from afl.operations.run.log_filter import LogFilter
from afl.operations.run.run_log import OVERLAP, LogLine, LogPage, read_page
from afl.operations.run.waiting import RunEnd, wait_a_while

T = TypeVar("T")
AWAY = (StoreUnavailable, ServerAway, Throttled)
RETRY_SECONDS = 0.25
A_WHILE = 20.0
_NEWS_SECONDS = 5.0
_BATCH = 1_000
ALL_ENTRIES = LogFilter()
_log = logging.getLogger(__name__)


def across_outages(call: Callable[[], T], left: Callable[[], float] = lambda: float("inf")) -> T:
    """What a call returns that is repeated while the store or the server is away, until no time is left."""
    told = False
    while True:
        try:
            return call()
        except AWAY as error:
            if left() <= RETRY_SECONDS:
                raise
            if not told:
                _log.warning("%s; waiting until it is back", error)
            told = True
            time.sleep(RETRY_SECONDS)


def wait_for_run(client: OperationsClient, run: str, timeout: float | None = None) -> RunEnd:
    """Where a run stands when it is over, or when so many seconds are."""
    left = countdown(timeout)
    while True:
        end = across_outages(lambda: client.call(wait_a_while, run, min(left(), A_WHILE)), left)
        if not end.timed_out or left() <= 0:
            return end


def read_log(
    client: OperationsClient, run: str, *, follow: bool = False, wanted: LogFilter = ALL_ENTRIES
) -> Iterator[LogLine]:
    """What a run logged so far, and with `follow` what it logs from now on, until it is over."""
    asked = asdict(wanted)

    def read(after: int, limit: int, wait: float = 0) -> LogPage:
        def page() -> LogPage:
            return client.call(read_page, run, after=after, limit=limit, wait=wait, **asked)

        return across_outages(page) if follow else page()

    highest, seen = 0, dict[str, None]()
    while True:
        page = LogPage([], max(0, highest - OVERLAP), False)
        full = True
        while full:
            page = read(page.position, _BATCH)
            full = len(page.lines) == _BATCH
            for line in page.lines:
                if line.id not in seen:
                    seen[line.id] = None
                    yield line
        if not follow or page.over:
            return
        highest = max(highest, page.position)
        for old in list(seen)[: -2 * OVERLAP]:
            del seen[old]
        read(highest, 1, _NEWS_SECONDS)


def countdown(timeout: float | None) -> Callable[[], float]:
    """How many seconds are left, whenever it is asked."""
    if timeout is None:
        return lambda: float("inf")
    if not isinstance(timeout, int | float):
        raise InputError(f"a timeout is a number of seconds, got {timeout!r:.80}")
    until = time.monotonic() + timeout
    return lambda: max(0.0, until - time.monotonic())
