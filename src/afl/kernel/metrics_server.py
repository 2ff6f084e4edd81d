"""A small HTTP server for the figures of a process that has no other: `/metrics`, for Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable

from afl.kernel.errors import SettingError
from afl.kernel.metrics import CONTENT_TYPE
from afl.kernel.small_server import SmallHandler, SmallServer

_LOOPBACK = "127.0.0.1"


class MetricsServer:
    """Serves on `PORT` of the loopback, or on `ADDRESS:PORT`; 0 takes a free port."""

    def __init__(self, place: str, text: Callable[[], str]) -> None:
        host, port = _parsed(place)
        try:
            self._http = SmallServer((host, port), _handler(text))
        except OSError as error:
            raise SettingError(
                f"AFL_METRICS is {place!r}: cannot listen there: {error.strerror or error}"
            ) from error
        self.port: int = self._http.server_address[1]
        thread = threading.Thread(target=self._http.serve_forever, name="afl-metrics", daemon=True)
        thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()


def _parsed(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise SettingError(
            f"AFL_METRICS is {place!r}; expected a port, or an address and a port: 0.0.0.0:9464"
        )
    return host.strip("[]") or _LOOPBACK, int(port)


def _handler(text: Callable[[], str]) -> type[SmallHandler]:
    class Handler(SmallHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] == "/metrics":
                self.answer(200, text().encode(), CONTENT_TYPE)
            else:
                self.answer(404, b"not found; the figures are at /metrics\n", CONTENT_TYPE)

    return Handler
