"""Telemetry keeps nothing by default, and passes everything on once somebody is there to take it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import StatusCode, get_current_span
from support.traces import traced

from afl.kernel import otel, telemetry
from afl.kernel.errors import MissingExtraError
from afl.kernel.telemetry import Ended, split, trace_id_of, traceparent_of


class Recorder:
    """The parts of an OpenTelemetry meter that are used, keeping what they are told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def create_counter(self, name: str) -> Instrument:
        self.told.append(("counter", name))
        return Instrument(name, self.told)

    def create_histogram(self, name: str) -> Instrument:
        self.told.append(("histogram", name))
        return Instrument(name, self.told)


class Instrument:
    def __init__(self, name: str, told: list[Any]) -> None:
        self.name, self.told = name, told

    def add(self, amount: int, attributes: dict[str, Any]) -> None:
        self.told.append(("add", self.name, amount, attributes))

    def record(self, value: float, attributes: dict[str, Any]) -> None:
        self.told.append(("record", self.name, value, attributes))


def test_by_default_nothing_happens_and_errors_pass() -> None:
    telemetry.count("afl.claims")
    telemetry.record("afl.wait", 1.5)
    telemetry.report(Ended("afl.run", traceparent_of("r"), "", 1, 2))
    assert not telemetry.is_tracing() and not telemetry.is_metering() and telemetry.here() == ""
    with pytest.raises(KeyError), telemetry.span("afl.claim", list="default") as this:
        this.note(found=3)
        this.fail("no")
        raise KeyError


def test_spans_nest_and_carry_what_was_noted() -> None:
    with traced() as told:
        with telemetry.span("outer", a=1), telemetry.span("inner") as inner:
            inner.note(b=True)
            assert telemetry.here().split("-")[1] in told.traces or not told.spans
        assert told.parents() == ["inner < outer", "outer < -"]
        assert dict(told.named("inner")[0].attributes or {}) == {"b": True}
        assert dict(told.named("outer")[0].attributes or {}) == {"a": 1}


def test_an_error_marks_its_span_and_goes_on() -> None:
    with traced() as told:
        with pytest.raises(ValueError, match="broken"), telemetry.span("work"):
            raise ValueError("broken")
        (span,) = told.spans
        assert span.status.status_code is StatusCode.ERROR and [e.name for e in span.events] == ["exception"]


def test_a_span_that_is_over_has_the_identity_it_was_known_by() -> None:
    own = traceparent_of("run", "task")
    with traced() as told:
        with telemetry.span("handler", own):
            pass
        telemetry.report(Ended("task", own, traceparent_of("run"), 1_000, 2_000, "too late", {"x": 1}))
        telemetry.report(Ended("run", traceparent_of("run"), "", 500, 3_000))
        assert told.parents() == ["handler < task", "run < -", "task < run"]
        assert told.traces == {trace_id_of("run")}
        (task,) = told.named("task")
        assert (task.context.trace_id, task.context.span_id) == split(own)
        assert (task.start_time, task.end_time) == (1_000_000_000, 2_000_000_000)
        assert (task.status.description, dict(task.attributes or {})) == ("too late", {"x": 1})


def test_a_span_is_not_drawn_into_the_trace_around_it_when_it_has_its_own() -> None:
    with traced() as told:
        with telemetry.span("somebody else's"):
            telemetry.report(Ended("run", traceparent_of("run"), "", 1, 2))
        assert told.parents() == ["run < -", "somebody else's < -"]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_all_spans_of_a_run_are_kept_or_none(share: float) -> None:
    kept = 0
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(share)), shutdown_on_exit=False)
    tracer = otel.OpenTelemetryTracer(provider.get_tracer("afl"))
    for number in range(200):
        run = f"run {number}"
        root = TraceIdRatioBased(share).should_sample(None, int(trace_id_of(run), 16), "x").decision
        with tracer.span("handler", traceparent_of(run, "task"), {}):
            assert get_current_span().is_recording() == root.is_sampled()
        kept += root.is_sampled()
    assert (kept == 0, kept == 200) == (share == 0.0, share == 1.0)


def test_instruments_are_made_once() -> None:
    recorder = Recorder()
    telemetry.meter(otel.OpenTelemetryMeter(recorder))
    try:
        telemetry.count("afl.claims", 2, list="x")
        telemetry.count("afl.claims")
        telemetry.record("afl.wait", 0.5)
    finally:
        telemetry.meter(None)
    assert recorder.told == [
        ("counter", "afl.claims"),
        ("add", "afl.claims", 2, {"list": "x"}),
        ("add", "afl.claims", 1, {}),
        ("histogram", "afl.wait"),
        ("record", "afl.wait", 0.5, {}),
    ]


def test_the_meter_is_that_of_the_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, module = Recorder(), ModuleType("opentelemetry.metrics")
    module.get_meter = lambda scope: recorder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", module)
    otel.opentelemetry_meter().count("afl.claims", 1, {})
    assert recorder.told[-1] == ("add", "afl.claims", 1, {})


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(MissingExtraError, match=r"agentflow-afl\[telemetry\]"):
        otel.opentelemetry_tracer()


@pytest.mark.parametrize("text", ["", "00-zz", "00-" + "0" * 31 + "-" + "0" * 16 + "-01"])
def test_what_is_no_traceparent_is_none(text: str) -> None:
    assert split(text) is None
