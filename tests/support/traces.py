"""Spans as they were told, by name and by what they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from afl.kernel import telemetry
from afl.kernel.otel import OpenTelemetryTracer


class Traces:
    """What was told since it was made."""

    def __init__(self, spans: InMemorySpanExporter) -> None:
        self._spans = spans

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    @property
    def traces(self) -> set[str]:
        """The ids of all traces."""
        return {f"{span.context.trace_id:032x}" for span in self.spans}

    def has_whole(self, name: str, count: int = 1) -> bool:
        """Whether so many of a name are told of, and every parent is: one that is under way is told of last."""
        lines = self.parents()
        return len(self.named(name)) >= count and not any(line.endswith("?") for line in lines)

    def parents(self) -> list[str]:
        """`child < parent` for each span, sorted; `?` for a parent that nobody told of, `-` for none."""
        names = {span.context.span_id: span.name for span in self.spans}
        found = []
        for span in self.spans:
            parent = "-" if span.parent is None else names.get(span.parent.span_id, "?")
            found.append(f"{span.name} < {parent}")
        return sorted(found)


@contextmanager
def traced() -> Iterator[Traces]:
    """Everything that is told meanwhile is kept in memory."""
    provider, kept = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    telemetry.trace(OpenTelemetryTracer(provider.get_tracer("afl")))
    try:
        yield Traces(kept)
    finally:
        telemetry.trace(None)
        provider.shutdown()
