"""Keeps the leases of this process alive while it works."""

from __future__ import annotations

import logging
import threading

from afl.kernel.errors import AgentFlowError
from afl.kernel.lease import LEASE_MS, RENEW_MS
from afl.runtime.persistence import PersistenceAPI

_log = logging.getLogger(__name__)


class LeaseKeeper:
    """A thread that renews everything the process holds, from the first time a third of a lease has passed.

    `holding` says whether there is anything to renew. A failed renewal is tried again at the next turn: if the store
    stays away for longer than the lease, others take over and this process's writes are refused, as they must be.
    """

    def __init__(self, store: PersistenceAPI) -> None:
        self.holding = True
        self._store = store
        self._ended = threading.Event()
        self._timer: threading.Thread | None = None

    def __enter__(self) -> LeaseKeeper:
        self._timer = threading.Thread(target=self._run, name="afl-lease-keeper", daemon=True)
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        assert self._timer is not None
        self._timer.join()

    def _run(self) -> None:
        while not self._ended.wait(RENEW_MS / 1000):
            if self.holding:
                try:
                    self._store.renew(self._store.owner_id, LEASE_MS)
                except AgentFlowError as error:
                    _log.warning("leases could not be renewed, trying again: %s", error)
