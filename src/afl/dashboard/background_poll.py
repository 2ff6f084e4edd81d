"""Looking at something slow for the live view: a thread of its own looks, the live view sees what it saw last.

A principal or a Redis server that does not answer would otherwise hold up every page that is watched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from afl.dashboard.live import Sources
from afl.kernel.errors import AgentFlowError

MOST_THREADS = 32
_BLIND_SECONDS = 2
_UNWATCHED_SECONDS = 3.0
_REST_SECONDS = 1.0  # after it could not be reached

Look = Callable[[str], object]


@dataclass
class _Watch:
    """One subject: what was seen last, and when somebody last wanted to know."""

    asked: float
    seen: object = None


@dataclass
class BackgroundPoll:
    """Looks at subjects again and again, each in a thread that ends when nobody asks any more.

    `opened` gives what to look with, for as long as the thread lives. Each has a connection of its own, so there are
    only so many: what else is watched counts as changed every now and then.
    """

    opened: Callable[[Sources], AbstractContextManager[Look]]
    every_seconds: float
    _watches: dict[tuple[Sources, str], _Watch] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def see(self, sources: Sources, subject: str) -> object:
        """What was seen last; None before the first look is over."""
        key = (sources, subject)
        with self._lock:
            watch = self._watches.get(key)
            if watch is not None:
                watch.asked = time.monotonic()
                return watch.seen
            if len(self._watches) >= MOST_THREADS:
                return time.monotonic() // _BLIND_SECONDS
            watch = self._watches[key] = _Watch(time.monotonic())
        threading.Thread(target=self._run, args=(key, watch), name="afl-background-poll", daemon=True).start()
        return None

    def _run(self, key: tuple[Sources, str], watch: _Watch) -> None:
        sources, subject = key
        while self._wanted(key, watch):
            try:
                with self.opened(sources) as look:
                    while self._wanted(key, watch):
                        watch.seen = look(subject)
                        time.sleep(self.every_seconds)
            except AgentFlowError as error:  # that it is away is worth knowing too
                watch.seen = f"{type(error).__name__}: {error}"
                time.sleep(_REST_SECONDS)

    def _wanted(self, key: tuple[Sources, str], watch: _Watch) -> bool:
        with self._lock:
            if time.monotonic() - watch.asked <= _UNWATCHED_SECONDS:
                return True
            if self._watches.get(key) is watch:
                del self._watches[key]
            return False
