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


@dataclass(slots=True)
class _Tally:
    """Facets and final states that are not in the worker's record yet, and the lock of whoever writes that."""

    ended: deque[tuple[str, str]] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add_to(self, counts: list[HandledCount]) -> list[HandledCount]:
        by_facet = {each.handler: each for each in counts}
        while self.ended:
            facet, state = self.ended.popleft()
            count = by_facet.setdefault(facet, HandledCount(facet))
            if state == TaskState.COMPLETED:
                count.handled += 1
            else:
                count.not_handled += 1
        return list(by_facet.values())


_tallies: WeakKeyDictionary[PersistenceAPI, defaultdict[str, _Tally]] = WeakKeyDictionary()
_guard = threading.Lock()


def _tally(store: PersistenceAPI, owner: str) -> _Tally:
    with _guard:
        return _tallies.setdefault(store, defaultdict(_Tally))[owner]


def register(
    store: PersistenceAPI, owner: str, worker: str, facets: list[str], task_list: str, capacity: int
) -> None:
    """The worker claims: it is running, and does this. Written when it changes, and every ten seconds."""
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
    tally = _tally(store, owner)
    with tally.lock:
        known = store.get_server(owner)
        if known is not None and known.state == ServerState.RUNNING:
            server.start_time, server.handled = known.start_time, known.handled
            if now - known.ping_time < _PING_MS and replace(known, ping_time=now) == server:
                return
        store.save_server(server)


def stay_registered(store: PersistenceAPI, owner: str) -> None:
    """The worker sends heartbeats: it lives, also while it has no room for more tasks."""
    known, now = store.get_server(owner), store.now()
    if known is not None and now - known.ping_time >= _PING_MS:
        store.update_server_ping(owner, now)


def count(store: PersistenceAPI, owner: str, facet: str, state: str) -> None:
    """The worker has reported how a task ended; one that is tried again has not.

    Of reports that come at the same time one writes, and the others do not wait for it.
    """
    if state == TaskState.PENDING:
        return
    tally = _tally(store, owner)
    tally.ended.append((facet, state))
    while tally.ended and tally.lock.acquire(blocking=False):
        try:
            known = store.get_server(owner)
            counts = tally.add_to(known.handled if known is not None else [])
            if known is not None:
                store.save_server(replace(known, handled=counts, ping_time=store.now()))
        finally:
            tally.lock.release()


def sign_off(store: PersistenceAPI, owner: str) -> None:
    """The worker has ended."""
    tally = _tally(store, owner)
    with tally.lock:
        known = store.get_server(owner)
        if known is not None:
            known.state, known.ping_time = ServerState.SHUTDOWN, store.now()
            store.save_server(known)
