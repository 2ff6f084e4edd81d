"""Traces and figures for OpenTelemetry. Needs the extra `telemetry`.

A tracer of the SDK makes the ids of spans itself and decides which are kept. Spans of runs have ids of their own (see
`afl.kernel.telemetry`), so they are handed to the tracer through its id generator; and whether a trace is kept is asked
of the sampler by its id alone, so that every process decides alike.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from afl.kernel.errors import MissingExtraError, pip_install
from afl.kernel.telemetry import Attribute, Ended, Span, split

_given: ContextVar[tuple[int, int] | None] = ContextVar("afl_span_identity", default=None)


class GivenIds:
    """An id generator that uses the identity which was given for the next span, else another generator's."""

    def __init__(self, others: Any) -> None:
        self._others = others

    def generate_trace_id(self) -> int:
        given = _given.get()
        return int(self._others.generate_trace_id()) if given is None else given[0]

    def generate_span_id(self) -> int:
        given = _given.get()
        return int(self._others.generate_span_id()) if given is None else given[1]

    def is_trace_id_random(self) -> bool:
        return True


class OpenTelemetryTracer:
    """Passes spans to a tracer of the OpenTelemetry SDK."""

    def __init__(self, tracer: Any) -> None:
        self._api = _module("opentelemetry.trace")
        self._empty = _module("opentelemetry.context").Context
        self._tracer = tracer
        self._sampler = getattr(tracer, "sampler", None)
        if self._sampler is not None and not isinstance(tracer.id_generator, GivenIds):
            tracer.id_generator = GivenIds(tracer.id_generator)

    @contextmanager
    def span(self, name: str, within: str, attributes: Mapping[str, Attribute]) -> Iterator[Span]:
        context = self._parent(within) if within else None
        with self._tracer.start_as_current_span(name, context=context, attributes=dict(attributes)) as inner:
            yield _OpenTelemetrySpan(inner, self._api)

    def report(self, ended: Ended) -> None:
        """A span with the identity that it was known by while it lasted."""
        token = _given.set(split(ended.own))
        try:
            span = self._tracer.start_span(
                ended.name,
                context=self._parent(ended.within),
                attributes=dict(ended.attributes),
                start_time=ended.begun_ms * 1_000_000,
            )
        finally:
            _given.reset(token)
        if ended.problem:
            _OpenTelemetrySpan(span, self._api).fail(ended.problem)
        span.end(end_time=max(ended.begun_ms, ended.ended_ms) * 1_000_000)

    def here(self) -> str:
        found = self._api.get_current_span().get_span_context()
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-01" if found.is_valid else ""

    def _parent(self, traceparent: str) -> Any:
        """A context whose span is that one; an empty context if there is none: the span begins its trace."""
        found = split(traceparent)
        if found is None:
            return self._empty()
        flags = self._api.TraceFlags(self._api.TraceFlags.SAMPLED if self._is_kept(found[0]) else 0)
        there = self._api.SpanContext(found[0], found[1], is_remote=True, trace_flags=flags)
        return self._api.set_span_in_context(self._api.NonRecordingSpan(there), self._empty())

    def _is_kept(self, trace_id: int) -> bool:
        if self._sampler is None:
            return True
        return bool(self._sampler.should_sample(self._empty(), trace_id, "afl.run").decision.is_sampled())


class _OpenTelemetrySpan:
    def __init__(self, inner: Any, api: Any) -> None:
        self._inner = inner
        self._api = api

    def note(self, **attributes: Attribute) -> None:
        self._inner.set_attributes(attributes)

    def fail(self, problem: str) -> None:
        self._inner.set_status(self._api.Status(self._api.StatusCode.ERROR, problem))


class OpenTelemetryMeter:
    """Passes counters and histograms to a meter, as the OpenTelemetry API defines them."""

    def __init__(self, meter: Any) -> None:
        self._meter = meter
        self._instruments: dict[str, Any] = {}

    def count(self, name: str, amount: int, attributes: Mapping[str, Attribute]) -> None:
        if name not in self._instruments:
            self._instruments[name] = self._meter.create_counter(name)
        self._instruments[name].add(amount, dict(attributes))

    def record(self, name: str, value: float, attributes: Mapping[str, Attribute]) -> None:
        if name not in self._instruments:
            self._instruments[name] = self._meter.create_histogram(name)
        self._instruments[name].record(value, dict(attributes))


def opentelemetry_tracer(name: str = "afl") -> OpenTelemetryTracer:
    """On the provider that the program has set up; where it sends spans is its configuration."""
    return OpenTelemetryTracer(_module("opentelemetry.trace").get_tracer(name))


def opentelemetry_meter(name: str = "afl") -> OpenTelemetryMeter:
    """On the provider that the program has set up."""
    return OpenTelemetryMeter(_module("opentelemetry.metrics").get_meter(name))


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"OpenTelemetry is not installed; `{pip_install('telemetry')}`") from error
