"""The coordinator's metrics for Prometheus. Needs the extra `telemetry`."""

from __future__ import annotations

from afl.kernel.errors import MissingExtraError, pip_install

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge
except ModuleNotFoundError as missing:
    if missing.name != "prometheus_client":
        raise
    raise MissingExtraError(
        f"prometheus_client is required for these metrics. Install it with: {pip_install('telemetry')}"
    ) from missing


class PrometheusMessageMetrics:
    """Collectors in a registry, the library's own by default; make one object per registry and namespace."""

    def __init__(
        self, registry: CollectorRegistry = REGISTRY, *, namespace: str = "agent_orchestration"
    ) -> None:
        def counter(name: str, meaning: str) -> Counter:
            return Counter(name, meaning, namespace=namespace, registry=registry)

        def gauge(name: str, meaning: str, *labels: str) -> Gauge:
            return Gauge(name, meaning, labels, namespace=namespace, registry=registry)

        self._delivered = counter("messages_delivered", "Messages stored for their recipient")
        self._errors = counter("messages_delivery_errors", "Messages that could not be stored")
        self._retries = counter("message_retries", "Messages that come again")
        self._nacks = counter("message_nacks", "Messages given back by their receiver")
        self._permanent = counter("message_permanent_failures", "Messages that became dead letters")
        self._backoff = gauge("backoff_seconds", "The wait before the latest retry")
        self._queue_length = gauge("queue_length", "Messages that wait for an agent", "agent", "priority")
        self._dlq_length = gauge("dlq_length", "Dead letters of an agent", "agent")

    def inc_delivered_ok(self, count: int = 1) -> None:
        """Messages that were stored for their recipient."""
        self._delivered.inc(count)

    def inc_delivered_error(self, count: int = 1) -> None:
        """Messages that were not."""
        self._errors.inc(count)

    def inc_retries_scheduled(self, count: int = 1, last_backoff_seconds: float = 0.0) -> None:
        """Messages that come again, and after which wait."""
        self._retries.inc(count)
        self._backoff.set(last_backoff_seconds)

    def inc_nacks(self, count: int = 1) -> None:
        """Messages that were given back."""
        self._nacks.inc(count)

    def inc_permanent(self, count: int = 1) -> None:
        """Messages that became dead letters."""
        self._permanent.inc(count)

    def set_queue_length(self, agent_key: str, priority: int, length: int) -> None:
        """How many messages of a priority wait for an agent."""
        self._queue_length.labels(agent_key, str(priority)).set(length)

    def set_dlq_length(self, agent_key: str, length: int) -> None:
        """How many dead letters an agent has."""
        self._dlq_length.labels(agent_key).set(length)
