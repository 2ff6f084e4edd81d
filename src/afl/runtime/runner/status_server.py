"""The runner's small HTTP server on loopback: is it well, what is it doing, and figures for Prometheus."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

Status = dict[str, Any]


class StatusServer:
    """Serves `/health`, `/status` and `/metrics` on the first free port from `port` on."""

    def __init__(self, status: Callable[[], Status], port: int, attempts: int) -> None:
        self._http = _bind(_handler(status), port, attempts)
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 60.0}, name="afl-status", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving; the port is free again."""
        # `shutdown` waits for the next look of `serve_forever`; a request makes it look now.
        stopper = threading.Thread(target=self._http.shutdown, daemon=True)
        stopper.start()
        self._knock()
        stopper.join()
        self._thread.join()
        self._http.server_close()

    def _knock(self) -> None:
        with socket.socket() as knock:
            knock.settimeout(1.0)
            knock.connect_ex(("127.0.0.1", self.port))


def _bind(handler: type[BaseHTTPRequestHandler], port: int, attempts: int) -> ThreadingHTTPServer:
    last = port + max(1, attempts) - 1
    for candidate in range(port, last + 1) if port else [0]:
        try:
            return _Server(("127.0.0.1", candidate), handler)
        except OSError:
            continue
    raise RuntimeError(f"Could not bind HTTP status server on ports {port}–{last}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False  # else two runners on one host would share a port


def _handler(status: Callable[[], Status]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/health":
                now = status()
                self._answer(200 if now["running"] else 503, {"ok": bool(now["running"])})
            elif path == "/status":
                self._answer(200, status())
            elif path == "/metrics":
                self._send(200, _metrics(status()).encode(), "text/plain; version=0.0.4; charset=utf-8")
            else:
                self._answer(404, {"error": "not found"})

        def _answer(self, code: int, body: Any) -> None:
            self._send(code, msgspec.json.encode(body), "application/json")

        def _send(self, code: int, body: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not worth a line each."""

    return Handler


def _metrics(status: Status) -> str:
    """The status as Prometheus reads it."""
    lines = [
        "# HELP afl_runner_up Whether the runner works.",
        "# TYPE afl_runner_up gauge",
        f"afl_runner_up {int(status['running'])}",
        "# HELP afl_runner_uptime_seconds How long it has been working.",
        "# TYPE afl_runner_uptime_seconds gauge",
        f"afl_runner_uptime_seconds {status['uptime_ms'] / 1000}",
        "# HELP afl_runner_active_tasks Tasks in hand.",
        "# TYPE afl_runner_active_tasks gauge",
        f"afl_runner_active_tasks {status['active_work_items']}",
        "# HELP afl_runner_capacity How many handlers may work at a time.",
        "# TYPE afl_runner_capacity gauge",
        f"afl_runner_capacity {status['config']['max_concurrent']}",
        "# HELP afl_runner_tasks_total Tasks worked on, by facet and outcome.",
        "# TYPE afl_runner_tasks_total counter",
    ]
    for name, counts in sorted(status["handled"].items()):
        label = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for outcome in ("handled", "not_handled"):
            lines.append(f'afl_runner_tasks_total{{facet="{label}",outcome="{outcome}"}} {counts[outcome]}')
    return "\n".join(lines) + "\n"
