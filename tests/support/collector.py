"""A collector of traces: it takes what processes send by OTLP over HTTP, and keeps it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


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
    headers: list[Message] = field(default_factory=list)
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

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _plain(resource.resource.attributes).get("service.name", "")
            for scope in resource.scope_spans:
                self.spans += [_span(service, each) for each in scope.spans]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.headers.append(self.headers)
            assert self.path == "/v1/traces"
            found.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

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


def _span(service: str, given: Any) -> ToldSpan:
    return ToldSpan(
        service,
        given.name,
        given.trace_id.hex(),
        given.span_id.hex(),
        given.parent_span_id.hex(),
        _plain(given.attributes),
        given.status.message,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
