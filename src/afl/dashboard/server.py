"""The web server: where it may listen, and how it starts and ends."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.concurrency import run_in_threadpool

from afl.dashboard.app import create_app
from afl.kernel.address import listening_socket
from afl.kernel.settings import Settings
from afl.operations.access import check_address
from afl.operations.web_server import server_config


def serve(settings: Settings, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until somebody ends it; `ready` is told the address."""
    check_address(settings, host)
    with listening_socket(host, port) as listener:
        url = address(host, listener.getsockname()[1])
        DashboardServer(settings, lambda: ready(url)).run(sockets=[listener])


class DashboardServer(uvicorn.Server):
    """Says when it listens, and lets go of those who watch before it waits for the others."""

    def __init__(self, settings: Settings, ready: Callable[[], None]) -> None:
        self._app = create_app(settings)
        self._ready = ready
        super().__init__(server_config(self._app))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Both signals end it in good order, with exit code 0; uvicorn's own would raise them once more."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await run_in_threadpool(self._app.state.hub.close)
        await super().shutdown(sockets)


def address(host: str, port: int) -> str:
    """What to open in a browser."""
    name = f"[{host.strip('[]')}]" if ":" in host else host
    return f"http://{name}:{port}"
