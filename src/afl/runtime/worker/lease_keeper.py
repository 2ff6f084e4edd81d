"""Keeps the leases of this process alive while it works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from afl.kernel.errors import AgentFlowError
from afl.kernel.joinable_thread import JoinableThread
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.held_claims import Claim, Holding, register

_log = logging.getLogger(__name__)

_LEAST_MS = 1.0


class LeaseKeeper:
    """A thread that renews what is in hand (`holding`; else all that the process holds).

    It does so for as long as somebody is inside `with keeper:`.

    It starts with the first one inside, and does nothing while there is nobody. `held` is told which tasks (uuid,
    epoch) are still this process's after each renewal, `lost` which of those in hand are not. What the store believes
    to be ours but nobody has in hand is not renewed, so that it ends with its lease at the latest. A failed renewal is
    tried again at the next turn: if the store stays away for longer than the lease, others take over and this process's
    writes are refused, as they must be.
    """

    def __init__(
        self,
        store: PersistenceAPI,
        lock_ms: int = 0,
        held: Callable[[list[tuple[str, int]]], None] | None = None,
        every_ms: int = 0,
        *,
        lease_ms: int = 0,
        holding: Callable[[], Holding] | None = None,
        lost: Callable[[set[Claim]], None] | None = None,
    ) -> None:
        self._store = store
        self._lock_ms = lock_ms
        self._lease_ms = lease_ms
        self._held = held
        self._every_ms = every_ms
        self._holding = holding
        self._lost = lost
        self._wanted = False
        self._changed = threading.Condition()
        self._inside = 0
        self._ended = False
        self._thread: JoinableThread | None = None
        register(self)

    def holding(self) -> Holding:
        """What is in hand, as far as anybody tells."""
        return self._holding() if self._holding is not None else Holding()

    def __enter__(self) -> LeaseKeeper:
        with self._changed:
            self._inside += 1
            if self._thread is None:
                self._thread = JoinableThread(self._run, "afl-lease-keeper")
                self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            self._inside -= 1

    def want(self, wanted: bool) -> None:
        """Be inside, or not: for one who cannot use `with`. Called by one thread only."""
        if wanted and not self._wanted:
            self._wanted = True
            self.__enter__()
        elif self._wanted and not wanted:
            self._wanted = False
            self.__exit__(None, None, None)

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
            self.renew_now()

    def _turn(self) -> bool:
        """Wait until it is time to renew; False once the keeper is closed.

        It looks at every interval whether anybody is inside. That nobody needs to wake it matters: work begins just
        then, and two threads more that want the interpreter would make it begin later.
        """
        with self._changed:
            while not self._ended:
                self._changed.wait(self._interval)
                if self._inside and not self._ended:
                    return True
        return False

    @property
    def _interval(self) -> float:
        third = self._store.run_lease_ms / 3
        return max(_LEAST_MS, min(third, self._every_ms or third)) / 1000

    def renew_now(self) -> None:
        """Renew, and tell which tasks are still held. A failure is tried again at the next turn."""
        self._tell(self._renew)

    def check_now(self) -> None:
        """Tell which tasks are still held, without a write.

        On SQLite every commit notifies every topic, this process's own commits included: a worker that wrote in
        answer to a notification would notify itself, and write again, for as long as a handler runs.
        """
        self._tell(lambda _: self._store.held_tasks(self._store.owner_id))

    def _tell(self, ask: Callable[[Holding | None], list[Claim]]) -> None:
        before = self._holding() if self._holding is not None else None
        try:
            held = ask(before)
        except AgentFlowError as error:
            _log.warning("leases could not be renewed, trying again: %s", error)
            return
        if self._held is not None:
            self._held(held)
        if self._lost is not None and before is not None:  # what was taken in hand meanwhile is not judged
            self._lost(set(before.tasks).difference(held))

    def _renew(self, holding: Holding | None) -> list[Claim]:
        store = self._store
        lease_ms = self._lease_ms or store.lease_ms
        if holding is None:
            return store.renew(store.owner_id, lease_ms, self._lock_ms)
        tasks = [uuid for uuid, _ in holding.tasks]
        return store.renew(store.owner_id, lease_ms, self._lock_ms, tasks=tasks, runs=list(holding.runs))
