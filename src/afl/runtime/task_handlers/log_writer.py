"""Lines that handlers write into the logs of runs, stored in batches."""

from __future__ import annotations

import logging

from afl.kernel.errors import PayloadError, StoreConflict
from afl.runtime.entities import LogDefinition
from afl.runtime.persistence import PersistenceAPI

_log = logging.getLogger(__name__)

_BATCH = 1000


class LogWriter:
    """What was written is kept until it is stored. `write` may be called by any thread."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self._lines: list[LogDefinition] = []
        self.write = self._lines.append

    def flush(self) -> None:
        """Store what was written."""
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
