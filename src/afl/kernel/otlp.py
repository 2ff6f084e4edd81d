"""Spans over HTTP to a collector, in the JSON form of OTLP, with nothing but the standard library.

Addresses and headers come from the variables that OpenTelemetry defines: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or
OTEL_EXPORTER_OTLP_ENDPOINT to which `/v1/traces` is added, and OTEL_EXPORTER_OTLP_HEADERS.
"""

from __future__ import annotations

import logging
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_log = logging.getLogger(__name__)

_ENDPOINT = "http://localhost:4318"
_SECONDS = 10.0


class OtlpExporter(SpanExporter):
    """What does not arrive is lost, and said once until something arrives again."""

    def __init__(self, url: str = "", headers: Mapping[str, str] | None = None) -> None:
        self.url = url or endpoint(os.environ)
        self._headers = dict(headers or given_headers(os.environ)) | {"Content-Type": "application/json"}
        self._failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        body = msgspec.json.encode(document(spans))
        request = urllib.request.Request(self.url, body, self._headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
                reply.read()
        except (OSError, urllib.error.URLError) as error:
            if not self._failed:
                _log.warning("spans do not reach %s: %s", self.url, error)
            self._failed = True
            return SpanExportResult.FAILURE
        self._failed = False
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is kept open."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def endpoint(environ: Mapping[str, str]) -> str:
    """Where spans go."""
    exact = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return exact or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", _ENDPOINT).rstrip("/") + "/v1/traces"


def given_headers(environ: Mapping[str, str]) -> dict[str, str]:
    """`key=value,key=value`, each percent-encoded."""
    pairs = [pair.partition("=") for pair in environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")]
    unquote = urllib.parse.unquote
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs if name.strip()}


def document(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """An ExportTraceServiceRequest. All spans of a process have one resource."""
    resource = dict(spans[0].resource.attributes) if spans else {}
    scoped = [{"scope": {"name": "afl"}, "spans": [_span(each) for each in spans]}]
    return {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": scoped}]}


def _span(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    assert context is not None  # a span that was recorded has one
    found: dict[str, Any] = {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        "name": span.name,
        "kind": span.kind.value + 1,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _attributes(span.attributes or {}),
        "events": [
            {
                "timeUnixNano": str(event.timestamp),
                "name": event.name,
                "attributes": _attributes(event.attributes or {}),
            }
            for event in span.events
        ],
        "status": {"code": span.status.status_code.value, "message": span.status.description or ""},
    }
    if span.parent is not None:
        found["parentSpanId"] = f"{span.parent.span_id:016x}"
    return found


def _attributes(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in given.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": str(value)}
