"""Remote workers in the registry of servers, where `afl ps` and `afl why` find them."""

from __future__ import annotations

from dataclasses import replace

from afl.runtime.entities import ServerDefinition, ServerState
from afl.runtime.persistence import PersistenceAPI

SERVICE = "http-worker"
_PING_MS = 10_000


def register(
    store: PersistenceAPI, owner: str, worker: str, facets: list[str], task_list: str, capacity: int
) -> None:
    """The worker claims: it is running, and does this. Written when it changes, and every ten seconds."""
    known, now = store.get_server(owner), store.now()
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
    if known is not None and known.state == ServerState.RUNNING:
        server.start_time = known.start_time
        if now - known.ping_time < _PING_MS and replace(known, ping_time=now) == server:
            return
    store.save_server(server)


def stay_registered(store: PersistenceAPI, owner: str) -> None:
    """The worker sends heartbeats: it lives, also while it has no room for more tasks."""
    known, now = store.get_server(owner), store.now()
    if known is not None and now - known.ping_time >= _PING_MS:
        store.update_server_ping(owner, now)


def sign_off(store: PersistenceAPI, owner: str) -> None:
    """The worker has ended."""
    known = store.get_server(owner)
    if known is not None:
        known.state, known.ping_time = ServerState.SHUTDOWN, store.now()
        store.save_server(known)
