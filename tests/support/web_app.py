"""The web application of the examples, in a process of its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from support.eventually import eventually
from support.warm_processes import WarmPopen

FOLDER = Path(__file__).parents[2] / "examples/web_app"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def web_app(store_url: str, port: int) -> Iterator[WarmPopen]:
    """The server, which answers at that port of this machine."""
    command = ["-m", "uvicorn", "--app-dir", str(FOLDER), "--port", str(port), "app:app"]
    environment = {**os.environ, "AFL_STORE": store_url}
    with WarmPopen([*command, "--log-level", "warning"], env=environment) as server:
        try:
            eventually(lambda: _answers(f"http://127.0.0.1:{port}"), server.poll)
            yield server
        finally:
            server.terminate()


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=10).status_code == 200
    except httpx2.TransportError:
        return False
