"""Keeps the leases of this process alive while it works."""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType

from afl.kernel.errors import AgentFlowError
from afl.runtime.persistence import PersistenceAPI

_log = logging.getLogger(__name__)


class LeaseKeeper:
    """A thread that renews everything the process holds, for as long as somebody is inside `with keeper:`.

    It starts with the first one inside and sleeps while there is nobody. A failed renewal is tried again at the next
    turn: if the store stays away for longer than the lease, others take over and this process's writes are refused,
    as they must be.
    """

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._inside = 0
        self._ended = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> LeaseKeeper:
        with self._changed:
            self._inside += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="afl-lease-keeper", daemon=True)
                self._thread.start()
            elif self._inside == 1:
                self._changed.notify()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            self._inside -= 1

    @property
    def idle(self) -> bool:
        """Whether nobody is inside."""
        return self._inside == 0

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._turn():
            self._renew()

    def _turn(self) -> bool:
        """Wait until it is time to renew; False once the keeper is closed."""
        due: float | None = None
        with self._changed:
            while not self._ended:
                now = time.monotonic()
                if not self._inside:
                    due = None
                elif due is None:
                    due = now + self._store.lease_ms / 3000
                elif now >= due:
                    return True
                self._changed.wait(None if due is None else due - now)
        return False

    def _renew(self) -> None:
        try:
            self._store.renew(self._store.owner_id, self._store.lease_ms)
        except AgentFlowError as error:
            _log.warning("leases could not be renewed, trying again: %s", error)
