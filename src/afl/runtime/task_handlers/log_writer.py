"""Lines that handlers write into the logs of runs, stored in batches."""

from __future__ import annotations

import logging
import threading
import time

from afl.kernel.errors import PayloadError, StoreConflict, StoreError
from afl.kernel.event_loop import embedding_loop
from afl.runtime.entities import LogDefinition
from afl.runtime.persistence import PersistenceAPI

_log = logging.getLogger(__name__)

_BATCH = 1000
_SOON_SECONDS = 1.0


class LogWriter:
    """What was written is kept until it is stored. `write` and `write_soon` may be called by any thread."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self._lines: list[LogDefinition] = []
        self._guard = threading.Lock()
        self._stored = time.monotonic()
        self.write = self._lines.append

    def write_soon(self, line: LogDefinition) -> None:
        """As `write`; the calling thread stores what there is, if nobody has done so for a second."""
        self._lines.append(line)
        due = time.monotonic() - self._stored > _SOON_SECONDS
        if due and embedding_loop() is None and self._guard.acquire(blocking=False):
            try:
                self._flush()
            except StoreError as error:  # they are kept, and whoever prints must not fail for this
                _log.debug("lines of log are not stored yet: %s", error)
            finally:
                self._guard.release()

    def flush(self) -> None:
        """Store what was written."""
        if self._lines:
            with self._guard:
                self._flush()

    def _flush(self) -> None:
        self._stored = time.monotonic()
        while self._lines:
            batch = self._lines[:_BATCH]
            try:
                self._store.save_logs(batch)
            except (PayloadError, StoreConflict):
                self._store_singly(batch)
            del self._lines[: len(batch)]

    def _store_singly(self, batch: list[LogDefinition]) -> None:
        """One of them is refused: it cannot be stored at all, or it is there already, its reply having been lost."""
        for line in batch:
            try:
                self._store.save_logs([line])
            except (PayloadError, StoreConflict) as error:
                _log.debug("a line of log is not stored: %s", error)
