"""Telemetry keeps nothing by default, and passes everything on once a sink is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from afl.kernel import telemetry
from afl.kernel.errors import MissingExtraError


class Recorder:
    """The parts of an OpenTelemetry tracer and meter that are used, keeping what they are told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    @contextmanager
    def start_as_current_span(self, name: str, attributes: dict[str, Any]) -> Iterator[Recorder]:
        self.told.append(("begin", name, attributes))
        try:
            yield self
        except Exception as error:
            self.told.append(("error", name, str(error)))
            raise
        finally:
            self.told.append(("end", name))

    def set_attributes(self, attributes: dict[str, Any]) -> None:
        self.told.append(("note", attributes))

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


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    telemetry.install(telemetry.OpenTelemetrySink(recorder, recorder))
    yield recorder
    telemetry.install(None)


def test_by_default_nothing_happens_and_errors_pass() -> None:
    telemetry.count("afl.claims")
    telemetry.record("afl.wait", 1.5)
    with pytest.raises(KeyError), telemetry.span("afl.claim", list="default") as this:
        this.note(found=3)
        raise KeyError


def test_spans_nest_and_carry_what_was_noted(recorder: Recorder) -> None:
    with telemetry.span("outer", a=1), telemetry.span("inner") as inner:
        inner.note(b=True)
    assert recorder.told == [
        ("begin", "outer", {"a": 1}),
        ("begin", "inner", {}),
        ("note", {"b": True}),
        ("end", "inner"),
        ("end", "outer"),
    ]


def test_an_error_marks_its_span_and_goes_on(recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="broken"), telemetry.span("work"):
        raise ValueError("broken")
    assert recorder.told[1:] == [("error", "work", "broken"), ("end", "work")]


def test_instruments_are_made_once(recorder: Recorder) -> None:
    telemetry.count("afl.claims", 2, list="x")
    telemetry.count("afl.claims")
    telemetry.record("afl.wait", 0.5)
    assert recorder.told == [
        ("counter", "afl.claims"),
        ("add", "afl.claims", 2, {"list": "x"}),
        ("add", "afl.claims", 1, {}),
        ("histogram", "afl.wait"),
        ("record", "afl.wait", 0.5, {}),
    ]


def test_the_sink_uses_the_providers_of_the_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    for name, getter in (("opentelemetry.trace", "get_tracer"), ("opentelemetry.metrics", "get_meter")):
        module = ModuleType(name)
        setattr(module, getter, lambda scope: recorder)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "opentelemetry", ModuleType("opentelemetry"))
    telemetry.opentelemetry_sink().count("afl.claims", 1, {})
    assert recorder.told[-1] == ("add", "afl.claims", 1, {})


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(MissingExtraError, match=r"agentflow\[telemetry\]"):
        telemetry.opentelemetry_sink()
