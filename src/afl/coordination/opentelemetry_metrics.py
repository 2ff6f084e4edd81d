"""The coordinator's metrics for OpenTelemetry. Needs the extra `telemetry`."""

from __future__ import annotations

from afl.kernel.errors import MissingExtraError, pip_install

try:
    from opentelemetry.metrics import Meter, get_meter
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise MissingExtraError(
        f"opentelemetry is required for these metrics. Install it with: {pip_install('telemetry')}"
    ) from missing


class OpenTelemetryMessageMetrics:
    """Instruments of a meter; by default that of the provider which the program has set up."""

    def __init__(self, meter: Meter | None = None) -> None:
        meter = get_meter("afl.coordination") if meter is None else meter
        self._delivered = meter.create_counter(
            "afl.messages.delivered", description="Messages stored for their recipient"
        )
        self._errors = meter.create_counter(
            "afl.messages.delivery_errors", description="Messages that could not be stored"
        )
        self._retries = meter.create_counter("afl.messages.retries", description="Messages that come again")
        self._nacks = meter.create_counter(
            "afl.messages.nacks", description="Messages given back by their receiver"
        )
        self._permanent = meter.create_counter(
            "afl.messages.permanent_failures", description="Messages that became dead letters"
        )
        self._backoff = meter.create_gauge(
            "afl.messages.backoff", unit="s", description="The wait before the latest retry"
        )
        self._queue_length = meter.create_gauge(
            "afl.messages.queue_length", description="Messages that wait for an agent"
        )
        self._dlq_length = meter.create_gauge(
            "afl.messages.dlq_length", description="Dead letters of an agent"
        )

    def inc_delivered_ok(self, count: int = 1) -> None:
        """Messages that were stored for their recipient."""
        self._delivered.add(count)

    def inc_delivered_error(self, count: int = 1) -> None:
        """Messages that were not."""
        self._errors.add(count)

    def inc_retries_scheduled(self, count: int = 1, last_backoff_seconds: float = 0.0) -> None:
        """Messages that come again, and after which wait."""
        self._retries.add(count)
        self._backoff.set(last_backoff_seconds)

    def inc_nacks(self, count: int = 1) -> None:
        """Messages that were given back."""
        self._nacks.add(count)

    def inc_permanent(self, count: int = 1) -> None:
        """Messages that became dead letters."""
        self._permanent.add(count)

    def set_queue_length(self, agent_key: str, priority: int, length: int) -> None:
        """How many messages of a priority wait for an agent."""
        self._queue_length.set(length, {"agent": agent_key, "priority": priority})

    def set_dlq_length(self, agent_key: str, length: int) -> None:
        """How many dead letters an agent has."""
        self._dlq_length.set(length, {"agent": agent_key})
