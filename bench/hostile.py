"""How the dashboard answers everybody else while strangers send what is meant to keep it busy.

`/health` asks nothing of the store, so what it waits for is the interpreter: a parser or a mask that held it for long
would be seen here.
"""

from __future__ import annotations

import http.client
import json
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from bench.dashboard import dashboard
from bench.place import Place
from bench.report import Report, seconds

ASKED = 300
SENDERS = 2
SECONDS = 60.0
BAR_MS = 250.0
"""At worst. The interpreter changes threads every 5 ms; what is above is one step that lets nobody else in."""

_STEP = "event facet F(x: Any)\nworkflow W() andThen { s = F(x = "
_JSON = {"Content-Type": "application/json"}


def measure(report: Report, place: Place) -> None:
    """Latency of `/health` idle, and under each kind of hostile request."""
    with dashboard(place.sqlite()) as address:
        idle = _latencies(address)
        for name, (headers, body) in _requests().items():
            with _sending(address, headers, body):
                busy = _latencies(address)
            ratio = statistics.median(busy) / statistics.median(idle)
            worst = max(busy) * 1000
            report.add(
                f"/health under {name}, slowest of {ASKED}, ms",
                worst,
                "at_most",
                BAR_MS,
                f"median {statistics.median(busy) * 1000:.2f} ms, {ratio:.1f} times that of an idle server",
            )


def _requests() -> dict[str, tuple[dict[str, str], bytes]]:
    """Headers and body of each."""
    source = {
        "parentheses": _STEP + "(" * 1_000_000,
        "comments": "/** x */ " + "// " * 300_000 + "z",
        "an open string": '"' + '\\"' * 500_000,
    }
    return {
        "a long name": (_JSON, json.dumps({"a" * 1_000_000: 1}).encode()),
        "a long Host": ({**_JSON, "Host": "a" * 60_000}, b"{}"),
        "a long Cookie": ({**_JSON, "Cookie": 'afl-theme="' + "\\" * 60_000 + '"'}, b"{}"),
        **{name: (_JSON, json.dumps({"source": text}).encode()) for name, text in source.items()},
    }


def _latencies(address: str) -> list[float]:
    connection = _connection(address)
    times = [seconds(lambda: _asked(connection, "GET", "/health")) for _ in range(ASKED)]
    connection.close()
    return times


@contextmanager
def _sending(address: str, headers: dict[str, str], body: bytes) -> Iterator[None]:
    """Some who send it, one time after another, while the block lasts."""
    over = threading.Event()

    def send() -> None:
        connection = _connection(address)
        while not over.is_set():
            _asked(connection, "POST", "/api/v1/compile", body, headers)
        connection.close()

    senders = [threading.Thread(target=send) for _ in range(SENDERS)]
    for each in senders:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in senders:
            each.join()


def _connection(address: str) -> http.client.HTTPConnection:
    parts = urlsplit(address)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)


def _asked(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> None:
    connection.request(method, path, body, headers or {})
    connection.getresponse().read()
