"""The seam for traces and metrics; `configure_logging` is the one for logs.

Code says what happens (`span`, `report`, `count`, `record`) and never where it goes. Nothing is installed by default,
and then it costs next to nothing. `afl.kernel.otel` passes traces on to OpenTelemetry, `afl.kernel.metrics` keeps
figures for Prometheus.

A span that others refer to before it is over (a run, a task, a turn) has an identity that is known from the start, as
the text of a W3C traceparent (see `afl.kernel.telemetry`), and is reported once it has ended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from afl.kernel.log import configure_logging

__all__ = [
    "UNOBSERVED",
    "Attribute",
    "Ended",
    "Meter",
    "Span",
    "Tracer",
    "configure_logging",
    "count",
    "here",
    "install",
    "is_metering",
    "is_tracing",
    "meter",
    "record",
    "report",
    "span",
    "trace",
]

Attribute = str | int | float | bool


class Span(Protocol):
    """What happens between a beginning and an end."""

    def note(self, **attributes: Attribute) -> None:
        """Add what became known on the way."""

    def fail(self, problem: str) -> None:
        """It did not go well, though nothing was raised."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A span that is over. `own` and `within` are traceparents: its identity, and its parent's or empty."""

    name: str
    own: str
    within: str
    begun_ms: int
    ended_ms: int
    problem: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


class Tracer(Protocol):
    """Where traces go. An implementation never raises into the code it observes."""

    def span(
        self, name: str, within: str, attributes: Mapping[str, Attribute]
    ) -> AbstractContextManager[Span]: ...

    def report(self, ended: Ended) -> None: ...

    def here(self) -> str: ...


class Meter(Protocol):
    """Where figures go. An implementation never raises into the code it observes."""

    def count(self, name: str, amount: int, attributes: Mapping[str, Attribute]) -> None: ...

    def record(self, name: str, value: float, attributes: Mapping[str, Attribute]) -> None: ...


class _Silence:
    """The tracer, span and meter that keep nothing."""

    def note(self, **attributes: Attribute) -> None:
        return

    def fail(self, problem: str) -> None:
        return

    def span(
        self, name: str, within: str, attributes: Mapping[str, Attribute]
    ) -> AbstractContextManager[Span]:
        return UNOBSERVED

    def report(self, ended: Ended) -> None:
        return

    def here(self) -> str:
        return ""

    def count(self, name: str, amount: int, attributes: Mapping[str, Attribute]) -> None:
        return

    def record(self, name: str, value: float, attributes: Mapping[str, Attribute]) -> None:
        return


_SILENCE = _Silence()
UNOBSERVED: AbstractContextManager[Span] = nullcontext(_SILENCE)
_tracer: Tracer = _SILENCE
_meter: Meter = _SILENCE


class Sink(Tracer, Meter, Protocol):
    """Both at once."""


def install(sink: Sink | None) -> None:
    """Send traces and figures there from now on; None: nowhere."""
    trace(sink)
    meter(sink)


def trace(tracer: Tracer | None) -> None:
    """Send traces there from now on; None: nowhere."""
    global _tracer
    _tracer = _SILENCE if tracer is None else tracer


def meter(meter: Meter | None) -> None:
    """Send figures there from now on; None: nowhere."""
    global _meter
    _meter = _SILENCE if meter is None else meter


def is_tracing() -> bool:
    """Whether spans go anywhere: what they are to carry need not be worked out otherwise."""
    return _tracer is not _SILENCE


def is_metering() -> bool:
    """Whether figures go anywhere."""
    return _meter is not _SILENCE


def span(name: str, within: str = "", /, **attributes: Attribute) -> AbstractContextManager[Span]:
    """`with span("afl.handler", facet="news.Fetch") as this:` an error that leaves the block marks the span.

    It belongs to the span around it; `within` is the traceparent of one that is elsewhere.
    """
    return _tracer.span(name, within, attributes)


def report(ended: Ended) -> None:
    """Tell of a span that is over."""
    _tracer.report(ended)


def here() -> str:
    """The traceparent of the span that is under way; empty if there is none."""
    return _tracer.here()


def count(name: str, amount: int = 1, **attributes: Attribute) -> None:
    """Something happened `amount` times."""
    _meter.count(name, amount, attributes)


def record(name: str, value: float, **attributes: Attribute) -> None:
    """One value of a distribution: a duration, a size."""
    _meter.record(name, value, attributes)


TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def traceparent_of(run_id: str, part: str = "") -> str:
    """The traceparent of a run, or of a part of it such as a task."""
    own = _digest(f"{run_id}\0{part}", 8)
    return f"00-{trace_id_of(run_id)}-{own}-01"


def trace_id_of(run_id: str) -> str:
    """The trace of a run, as a tracing system shows it."""
    return _digest(run_id, 16)


def _digest(text: str, size: int) -> str:
    from hashlib import blake2b  # noqa: PLC0415  loads OpenSSL, which those who only read need not

    return blake2b(text.encode(), digest_size=size).hexdigest()


def split(traceparent: str) -> tuple[int, int] | None:
    """Trace and span as numbers; None for what is no traceparent."""
    found = TRACEPARENT.fullmatch(traceparent)
    return None if found is None else (int(found[1], 16), int(found[2], 16))
