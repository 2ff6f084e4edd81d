"""Ends a session in which nothing happens any more, and says what was under way.

A test that hangs is ended by its own time limit; this is for a hang that is in no test.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time


class Stillness:
    """A plugin of the process that prints: it hears of every test, on whatever worker."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._under_way: dict[str, None] = {}
        self._last = time.monotonic()
        self._over = threading.Event()

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self._watch, name="stillness", daemon=True).start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._last = time.monotonic()
        self._under_way[nodeid] = None

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._last = time.monotonic()
        self._under_way.pop(nodeid, None)

    def pytest_unconfigure(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(self._seconds / 10):
            if time.monotonic() - self._last > self._seconds:
                self._give_up()

    def _give_up(self) -> None:
        tests = ", ".join(self._under_way) or "none"
        print(f"\nNothing happened for {self._seconds:g} s. Tests under way: {tests}", file=sys.__stderr__)
        faulthandler.dump_traceback(file=sys.__stderr__)
        os._exit(3)
