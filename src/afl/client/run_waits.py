"""Waiting for a run and for its log through a client that may be remote: by repeated long polls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

from afl.client.store_client import OperationsClient
from afl.kernel.errors import InputError
from afl.operations.run.log_filter import LogFilter
from afl.operations.run.run_log import OVERLAP, LogLine, LogPage, read_page
from afl.operations.run.waiting import RunEnd, wait_a_while

A_WHILE = 20.0
_NEWS_SECONDS = 5.0
_BATCH = 1_000
ALL_ENTRIES = LogFilter()


def wait_for_run(client: OperationsClient, run: str, timeout: float | None = None) -> RunEnd:
    """Where a run stands when it is over, or when so many seconds are."""
    left = countdown(timeout)
    while True:
        seconds = left()
        end = client.call(wait_a_while, run, min(seconds, A_WHILE))
        if not end.timed_out or seconds <= A_WHILE:
            return end


def read_log(
    client: OperationsClient, run: str, *, follow: bool = False, wanted: LogFilter = ALL_ENTRIES
) -> Iterator[LogLine]:
    """What a run logged so far, and with `follow` what it logs from now on, until it is over."""
    asked = asdict(wanted)
    highest, seen = 0, dict[str, None]()
    while True:
        page = LogPage([], max(0, highest - OVERLAP), False)
        full = True
        while full:
            page = client.call(read_page, run, after=page.position, limit=_BATCH, **asked)
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
        client.call(read_page, run, after=highest, limit=1, wait=_NEWS_SECONDS, **asked)


def countdown(timeout: float | None) -> Callable[[], float]:
    """How many seconds are left, whenever it is asked."""
    if timeout is None:
        return lambda: float("inf")
    if not isinstance(timeout, int | float):
        raise InputError(f"a timeout is a number of seconds, got {timeout!r:.80}")
    until = time.monotonic() + timeout
    return lambda: max(0.0, until - time.monotonic())
