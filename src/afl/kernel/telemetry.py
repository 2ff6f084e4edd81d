"""The seam for traces and metrics; `configure_logging` is the one for logs.

Code says what happens (`span`, `count`, `record`) and never where it goes. Nothing is installed by default,
and then it costs next to nothing; `install(opentelemetry_sink())` passes it on to OpenTelemetry.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from afl.kernel.errors import MissingExtraError
from afl.kernel.log import configure_logging

__all__ = [
    "OpenTelemetrySink",
    "Sink",
    "Span",
    "configure_logging",
    "count",
    "install",
    "opentelemetry_sink",
    "record",
    "span",
]

Attribute = str | int | float | bool


class Span(Protocol):
    """What happens between a beginning and an end."""

    def note(self, **attributes: Attribute) -> None:
        """Add what became known on the way."""


class Sink(Protocol):
    """Where traces and metrics go. An implementation never raises into the code it observes."""

    def span(self, name: str, attributes: Mapping[str, Attribute]) -> AbstractContextManager[Span]: ...

    def count(self, name: str, amount: int, attributes: Mapping[str, Attribute]) -> None: ...

    def record(self, name: str, value: float, attributes: Mapping[str, Attribute]) -> None: ...


class _Silence:
    """The sink and span that keep nothing."""

    def note(self, **attributes: Attribute) -> None:
        return

    def span(self, name: str, attributes: Mapping[str, Attribute]) -> AbstractContextManager[Span]:
        return _UNOBSERVED

    def count(self, name: str, amount: int, attributes: Mapping[str, Attribute]) -> None:
        return

    def record(self, name: str, value: float, attributes: Mapping[str, Attribute]) -> None:
        return


_SILENCE = _Silence()
_UNOBSERVED: AbstractContextManager[Span] = nullcontext(_SILENCE)
_sink: Sink = _SILENCE


def install(sink: Sink | None) -> None:
    """Send everything there from now on; None: nowhere."""
    global _sink
    _sink = _SILENCE if sink is None else sink


def span(name: str, **attributes: Attribute) -> AbstractContextManager[Span]:
    """`with span("afl.claim", list="default") as this:` an error that leaves the block marks the span."""
    return _sink.span(name, attributes)


def count(name: str, amount: int = 1, **attributes: Attribute) -> None:
    """Something happened `amount` times."""
    _sink.count(name, amount, attributes)


def record(name: str, value: float, **attributes: Attribute) -> None:
    """One value of a distribution: a duration, a size."""
    _sink.record(name, value, attributes)


class OpenTelemetrySink:
    """Passes spans to a tracer, counters and histograms to a meter, as the OpenTelemetry API defines them."""

    def __init__(self, tracer: Any, meter: Any) -> None:
        self._tracer = tracer
        self._meter = meter
        self._instruments: dict[str, Any] = {}

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Attribute]) -> Iterator[Span]:
        with self._tracer.start_as_current_span(name, attributes=dict(attributes)) as inner:
            yield _OpenTelemetrySpan(inner)

    def count(self, name: str, amount: int, attributes: Mapping[str, Attribute]) -> None:
        if name not in self._instruments:
            self._instruments[name] = self._meter.create_counter(name)
        self._instruments[name].add(amount, dict(attributes))

    def record(self, name: str, value: float, attributes: Mapping[str, Attribute]) -> None:
        if name not in self._instruments:
            self._instruments[name] = self._meter.create_histogram(name)
        self._instruments[name].record(value, dict(attributes))


class _OpenTelemetrySpan:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def note(self, **attributes: Attribute) -> None:
        self._inner.set_attributes(attributes)


def opentelemetry_sink(name: str = "afl") -> OpenTelemetrySink:
    """A sink on the providers that the program has set up; where they send it is their configuration."""
    try:
        trace = importlib.import_module("opentelemetry.trace")
        metrics = importlib.import_module("opentelemetry.metrics")
    except ImportError as error:
        raise MissingExtraError(
            "OpenTelemetry is not installed; `pip install 'agentflow[telemetry]'`"
        ) from error
    return OpenTelemetrySink(trace.get_tracer(name), metrics.get_meter(name))
