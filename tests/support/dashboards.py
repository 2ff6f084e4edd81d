"""The dashboard for tests: its application in this process, or served on a port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from afl.dashboard.app import create_app
from afl.dashboard.server import DashboardServer, address
from afl.kernel.address import listening_socket
from afl.kernel.settings import Settings, load_settings
from afl.operations.access import hash_token
from afl.operations.roles import Role

API = "/api/v1"
BASE = "http://127.0.0.1:8765"
TOKENS = {role: f"token-of-the-{role}" for role in Role}

SOURCE = """
event facet Ask(question: String) => (answer: String)

workflow Quiz(question: String = "why?") => (answer: String) andThen {
    asked = Ask(question = $.question)
    yield Quiz(answer = asked.answer)
}
"""


def settings_for(store: str, **values: Any) -> Settings:
    """Settings that nothing outside of the test has a part in."""
    return load_settings({"store": store, **values}, environ={})


def with_users(store: str, **values: Any) -> Settings:
    """The same, with one user for each role, called like it."""
    users = tuple((str(role), {"role": str(role), "token": hash_token(TOKENS[role])}) for role in Role)
    return settings_for(store, users=users, **values)


@contextmanager
def client_of(settings: Settings, role: Role | None = None) -> Iterator[TestClient]:
    """A client of an application of its own; with a role it sends that one's token."""
    headers = {"Authorization": f"Bearer {TOKENS[role]}"} if role is not None else None
    with TestClient(create_app(settings), BASE, headers=headers, follow_redirects=False) as client:
        yield client


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The address of a real server."""
    ready = threading.Event()
    with listening_socket("127.0.0.1", 0) as listener:
        server = DashboardServer(settings, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert ready.wait(60)
            yield address("127.0.0.1", listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()
