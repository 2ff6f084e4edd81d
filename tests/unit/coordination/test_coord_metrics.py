"""Metrics: the same counters and gauges in memory, for Prometheus and for OpenTelemetry."""

from __future__ import annotations

import sys
import threading
from typing import Any, Protocol

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from afl.coordination.interfaces import MessageMetrics
from afl.coordination.metrics import InMemoryMessageMetrics, MessageGauges
from afl.coordination.opentelemetry_metrics import OpenTelemetryMessageMetrics
from afl.coordination.prometheus_metrics import PrometheusMessageMetrics
from afl.kernel.errors import MissingExtraError


class Everything(MessageMetrics, MessageGauges, Protocol):
    """Counters and gauges."""


def tell(metrics: Everything) -> None:
    """As a coordinator does."""
    metrics.inc_delivered_ok(2)
    metrics.inc_delivered_ok(1)
    metrics.inc_delivered_error(1)
    metrics.inc_retries_scheduled(1, 0.5)
    metrics.inc_retries_scheduled(2, 4.0)
    metrics.inc_nacks(5)
    metrics.inc_permanent(6)
    metrics.set_queue_length("writer:default", 9, 7)
    metrics.set_queue_length("writer:default", 9, 3)
    metrics.set_dlq_length("writer:default", 2)


def test_a_snapshot_has_everything() -> None:
    metrics = InMemoryMessageMetrics()
    assert metrics.snapshot()["last_update"] is None
    tell(metrics)
    found = metrics.snapshot()
    assert found.pop("last_update") > 0
    assert found == {
        "retry": {
            "total_nacks": 5,
            "total_permanent_failures": 6,
            "total_retries_scheduled": 3,
            "last_backoff_seconds": 4.0,
        },
        "delivery": {"delivered_ok": 3, "delivered_error": 1},
        "gauges": {"queue_lengths": {"writer:default|9": 3}, "dlq_lengths": {"writer:default": 2}},
    }


def test_a_snapshot_is_a_copy() -> None:
    metrics = InMemoryMessageMetrics()
    metrics.snapshot()["delivery"]["delivered_ok"] = 99
    assert metrics.snapshot()["delivery"]["delivered_ok"] == 0


def test_threads_lose_no_count() -> None:
    metrics = InMemoryMessageMetrics()

    def count() -> None:
        for _ in range(2_000):
            metrics.inc_nacks(1)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.snapshot()["retry"]["total_nacks"] == 16_000


def test_prometheus() -> None:
    registry = CollectorRegistry()
    tell(PrometheusMessageMetrics(registry))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"agent_orchestration_{name}", labels)

    assert value("messages_delivered_total") == 3
    assert value("messages_delivery_errors_total") == 1
    assert value("message_retries_total") == 3
    assert value("message_nacks_total") == 5
    assert value("message_permanent_failures_total") == 6
    assert value("backoff_seconds") == 4.0
    assert value("queue_length", agent="writer:default", priority="9") == 3
    assert value("dlq_length", agent="writer:default") == 2


def test_prometheus_under_another_name() -> None:
    registry = CollectorRegistry()
    PrometheusMessageMetrics(registry, namespace="mine").inc_delivered_ok()
    assert registry.get_sample_value("mine_messages_delivered_total") == 1


def test_opentelemetry() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    tell(OpenTelemetryMessageMetrics(provider.get_meter("test")))
    assert points(reader) == {
        ("afl.messages.delivered", ()): 3,
        ("afl.messages.delivery_errors", ()): 1,
        ("afl.messages.retries", ()): 3,
        ("afl.messages.nacks", ()): 5,
        ("afl.messages.permanent_failures", ()): 6,
        ("afl.messages.backoff", ()): 4.0,
        ("afl.messages.queue_length", (("agent", "writer:default"), ("priority", 9))): 3,
        ("afl.messages.dlq_length", (("agent", "writer:default"),)): 2,
    }
    provider.shutdown()


def points(reader: InMemoryMetricReader) -> dict[Any, Any]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, tuple(sorted((point.attributes or {}).items()))): getattr(point, "value", None)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def test_opentelemetry_without_a_provider_is_silent() -> None:
    metrics = OpenTelemetryMessageMetrics()
    tell(metrics)
    assert isinstance(metrics, MessageGauges)


@pytest.mark.parametrize(
    ("module", "missing"),
    [
        ("afl.coordination.prometheus_metrics", "prometheus_client"),
        ("afl.coordination.opentelemetry_metrics", "opentelemetry.metrics"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, module: str, missing: str) -> None:
    import importlib

    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises((MissingExtraError, ModuleNotFoundError), match=r"agentflow-afl\[telemetry\]"):
        importlib.import_module(module)
