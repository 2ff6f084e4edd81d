"""The runner's small HTTP server: is it well, what is it doing, and figures for Prometheus."""

from __future__ import annotations

import errno
import logging
import socket
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from afl.kernel.errors import SettingError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.metrics import CONTENT_TYPE, Sample, render

Status = dict[str, Any]
LOOPBACK = "127.0.0.1"
_LOOPBACKS = {"0.0.0.0": LOOPBACK, "::": "::1"}  # where a server on every address can be reached
REQUEST_SECONDS = 10.0  # within which a request has to come
_log = logging.getLogger(__name__)
_LOOK_SECONDS = 60.0  # whoever closes it knocks
_KNOCK_SECONDS = 0.1  # until it knocks again: the first time may have been before `shutdown` began


class StatusServer:
    """Serves `/health`, `/status` and `/metrics` on the first free port from `port` on; `more` are further figures.

    Nobody is asked who they are: any `host` but the loopback shows them to all who reach it.
    """

    def __init__(
        self,
        status: Callable[[], Status],
        port: int,
        attempts: int,
        *,
        host: str = LOOPBACK,
        more: Callable[[], str] = lambda: "",
    ) -> None:
        self._http = _bind(_handler(status, more), host, port, attempts)
        self.port: int = self._http.server_address[1]
        self._thread = JoinableThread(self._http.serve_forever, "afl-status", _LOOK_SECONDS)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; the port is free again."""
        # `shutdown` waits for the next look of `serve_forever`; a request makes it look now.
        stopper = JoinableThread(self._http.shutdown, "afl-status-stop")
        stopper.start()
        while self._thread.is_alive():
            self._knock()
            self._thread.join(_KNOCK_SECONDS)
        stopper.join()
        self._http.server_close()

    def _knock(self) -> None:
        host = str(self._http.server_address[0])
        with socket.socket(self._http.address_family) as knock:
            knock.settimeout(1.0)
            knock.connect_ex((_LOOPBACKS.get(host, host), self.port))


def _bind(handler: type[BaseHTTPRequestHandler], host: str, port: int, attempts: int) -> ThreadingHTTPServer:
    last = port + max(1, attempts) - 1
    for candidate in range(port, last + 1) if port else [0]:
        try:
            return _Server((host, candidate), handler)
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise SettingError(
                    f"the status server cannot listen on {host!r}: {error.strerror}; "
                    "expected an address of this machine, as 127.0.0.1, or 0.0.0.0 for all of them"
                ) from error
    raise RuntimeError(f"Could not bind HTTP status server on ports {port}–{last}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False  # else two runners on one host would share a port

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """What a request has raised; many probes only connect, and break off."""
        error = sys.exception()
        if isinstance(error, ConnectionError):
            _log.debug("%s left before its answer: %s", client_address, error)
        else:
            _log.error("the request of %s failed", client_address, exc_info=error)


def _handler(status: Callable[[], Status], more: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/health":
                now = status()
                self._answer(200 if now["running"] else 503, {"ok": bool(now["running"])})
            elif path == "/status":
                self._answer(200, status())
            elif path == "/metrics":
                self._send(200, (runner_figures(status()) + more()).encode(), CONTENT_TYPE)
            else:
                self._answer(404, {"error": "not found"})

        def _answer(self, code: int, body: Any) -> None:
            self._send(code, msgspec.json.encode(body), "application/json")

        def _send(self, code: int, body: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """What the server itself refuses, in the form of all other answers."""
            self._answer(code, {"error": message or self.responses[code][0]})

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not worth a line each."""

    return Handler


def runner_figures(status: Status) -> str:
    """The status as Prometheus reads it."""
    return render(
        [
            Sample("afl_runner_up", int(status["running"])),
            Sample("afl_runner_uptime_seconds", status["uptime_ms"] / 1000),
            Sample("afl_runner_active_tasks", status["active_work_items"]),
            Sample("afl_runner_capacity", status["config"]["max_concurrent"]),
            *(
                Sample("afl_runner_tasks_total", counts[outcome], (facet, outcome))
                for facet, counts in status["handled"].items()
                for outcome in ("handled", "not_handled")
            ),
        ]
    )
