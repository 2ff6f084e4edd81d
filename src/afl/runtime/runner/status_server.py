"""The runner's small HTTP server: is it well, what is it doing, and figures for Prometheus."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from afl.kernel.errors import SettingError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.metrics import CONTENT_TYPE, Sample, render
from afl.kernel.small_server import SmallHandler, SmallServer

Status = dict[str, Any]
LOOPBACK = "127.0.0.1"
_LOOPBACKS = {"0.0.0.0": LOOPBACK, "::": "::1"}  # where a server on every address can be reached
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


def _bind(handler: type[SmallHandler], host: str, port: int, attempts: int) -> SmallServer:
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


class _Server(SmallServer):
    allow_reuse_address = False  # else two runners on one host would share a port


def _handler(status: Callable[[], Status], more: Callable[[], str]) -> type[SmallHandler]:
    class Handler(SmallHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/health":
                now = status()
                self._tell(200 if now["running"] else 503, {"ok": bool(now["running"])})
            elif path == "/status":
                self._tell(200, status())
            elif path == "/metrics":
                self.answer(200, (runner_figures(status()) + more()).encode(), CONTENT_TYPE)
            else:
                self._tell(404, {"error": "not found"})

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """What the server itself refuses, in the form of all other answers."""
            self._tell(code, {"error": message or self.responses[code][0]})

        def _tell(self, code: int, body: Any) -> None:
            self.answer(code, msgspec.json.encode(body), "application/json")

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
