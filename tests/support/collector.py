"""A collector of traces: it takes what processes send in the JSON form of OTLP, and keeps it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class ToldSpan:
    """One span, and the service that sent it."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    problem: str


@dataclass
class Collector:
    """Everything that came in."""

    spans: list[ToldSpan] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def named(self, name: str) -> list[ToldSpan]:
        return [span for span in self.spans if span.name == name]

    @property
    def traces(self) -> set[str]:
        return {span.trace for span in self.spans}

    def parents(self) -> set[str]:
        """`child < parent` for each kind of span; `?` for a parent that nobody told of, `-` for none."""
        names = {span.id: span.name for span in self.spans}
        return {f"{each.name} < {names.get(each.parent, '?') if each.parent else '-'}" for each in self.spans}

    def take(self, document: dict[str, Any]) -> None:
        for resource in document["resourceSpans"]:
            service = _plain(resource["resource"]["attributes"]).get("service.name", "")
            for scope in resource["scopeSpans"]:
                self.spans += [_span(service, each) for each in scope["spans"]]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.headers.append(dict(self.headers))
            assert self.path == "/v1/traces"
            found.take(json.loads(body))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def _span(service: str, given: dict[str, Any]) -> ToldSpan:
    return ToldSpan(
        service,
        given["name"],
        given["traceId"],
        given["spanId"],
        given.get("parentSpanId", ""),
        _plain(given["attributes"]),
        given["status"]["message"],
    )


def _plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in attributes}
