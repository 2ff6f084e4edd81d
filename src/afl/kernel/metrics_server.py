"""A small HTTP server for the figures of a process that has no other: `/metrics`, for Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from afl.kernel.errors import SettingError
from afl.kernel.metrics import CONTENT_TYPE

_LOOPBACK = "127.0.0.1"


class MetricsServer:
    """Serves on `PORT` of the loopback, or on `ADDRESS:PORT`; 0 takes a free port."""

    def __init__(self, place: str, text: Callable[[], str]) -> None:
        host, port = _parsed(place)
        try:
            self._http = _Server((host, port), _handler(text))
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


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _parsed(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise SettingError(
            f"AFL_METRICS is {place!r}; expected a port, or an address and a port: 0.0.0.0:9464"
        )
    return host.strip("[]") or _LOOPBACK, int(port)


def _handler(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = text().encode() if found else b"not found; the figures are at /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not worth a line each."""

    return Handler
