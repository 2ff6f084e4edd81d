"""Remote workers in the registry of servers: what they do, that they live, and what they have done."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from afl.runtime.entities import HandledCount, ServerDefinition, ServerState, TaskState
from afl.runtime.persistence import PersistenceAPI

SERVICE = "http-worker"
_PING_MS = 10_000
_COUNT_MS = 1_000


@dataclass(slots=True)
class _Reports:
    """Facets and final states that are not in the worker's record yet, and the lock of whoever writes that."""

    ended: deque[tuple[str, str]] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def added_to(self, counts: list[HandledCount]) -> list[HandledCount]:
        by_facet = {each.handler: each for each in counts}
        while self.ended:
            facet, state = self.ended.popleft()
            count = by_facet.setdefault(facet, HandledCount(facet))
            if state == TaskState.COMPLETED:
                count.handled += 1
            else:
                count.not_handled += 1
        return list(by_facet.values())


_all: WeakKeyDictionary[PersistenceAPI, defaultdict[str, _Reports]] = WeakKeyDictionary()
_guard = threading.Lock()


def _reports(store: PersistenceAPI, owner: str) -> _Reports:
    with _guard:
        return _all.setdefault(store, defaultdict(_Reports))[owner]


def register(
    store: PersistenceAPI, owner: str, worker: str, facets: list[str], task_list: str, capacity: int
) -> None:
    """The worker claims: it is running, and does this.

    Written when that changes, a second later when it has reported something, and every ten seconds.
    """
    now = store.now()
    server = ServerDefinition(
        uuid=owner,
        server_group="",
        service_name=SERVICE,
        server_name=worker,
        start_time=now,
        ping_time=now,
        topics=list(facets),
        handlers=list(facets),
        state=ServerState.RUNNING,
        manager=owner,
        task_list=task_list,
        capacity=capacity,
    )
    reports = _reports(store, owner)
    with reports.lock:
        known = store.get_server(owner)
        if known is not None and known.state == ServerState.RUNNING:
            server.start_time, server.handled = known.start_time, known.handled
            rest = _COUNT_MS if reports.ended else _PING_MS
            if now - known.ping_time < rest and replace(known, ping_time=now) == server:
                return
        server.handled = reports.added_to(server.handled)
        store.save_server(server)


def stay_registered(store: PersistenceAPI, owner: str) -> None:
    """The worker sends heartbeats: it lives, also while it has no room for more tasks."""
    known, now = store.get_server(owner), store.now()
    if known is not None and now - known.ping_time >= _PING_MS:
        store.update_server_ping(owner, now)


def count(store: PersistenceAPI, owner: str, facet: str, state: str) -> None:
    """The worker has reported how a task ended; one that is tried again has not."""
    if state != TaskState.PENDING:
        _reports(store, owner).ended.append((facet, state))


def sign_off(store: PersistenceAPI, owner: str) -> None:
    """The worker has ended."""
    reports = _reports(store, owner)
    with reports.lock:
        known = store.get_server(owner)
        if known is not None:
            known.state, known.ping_time = ServerState.SHUTDOWN, store.now()
            known.handled = reports.added_to(known.handled)
            store.save_server(known)
    with _guard:
        _all[store].pop(owner, None)
