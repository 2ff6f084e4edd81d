"""Counters and gauges of the message coordinator: kept in memory, and read with `snapshot()`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from afl.coordination.broker import DeadMessage
from afl.coordination.interfaces import MessageMetrics
from afl.kernel.control_characters import visible_controls


@runtime_checkable
class MessageGauges(Protocol):
    """Gauges that a metrics object may have besides the counters: the last known lengths."""

    def set_queue_length(self, agent_key: str, priority: int, length: int) -> None:
        """The number of queued messages of a priority; priority 0 stands for all of them."""

    def set_dlq_length(self, agent_key: str, length: int) -> None:
        """The number of dead letters of an agent."""


class InMemoryMessageMetrics:
    """The default. Safe to use from several threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._retry: dict[str, float] = {
            "total_nacks": 0,
            "total_permanent_failures": 0,
            "total_retries_scheduled": 0,
            "last_backoff_seconds": 0.0,
        }
        self._delivery = {"delivered_ok": 0, "delivered_error": 0}
        self._queue_lengths: dict[str, int] = {}
        self._dlq_lengths: dict[str, int] = {}
        self._last_update: float | None = None

    def inc_delivered_ok(self, count: int = 1) -> None:
        """Messages that were stored for their recipient."""
        with self._guard:
            self._delivery["delivered_ok"] += count
            self._last_update = time.time()

    def inc_delivered_error(self, count: int = 1) -> None:
        """Messages that were not."""
        with self._guard:
            self._delivery["delivered_error"] += count
            self._last_update = time.time()

    def inc_retries_scheduled(self, count: int = 1, last_backoff_seconds: float = 0.0) -> None:
        """Messages that come again, and after which wait."""
        with self._guard:
            self._retry["total_retries_scheduled"] += count
            self._retry["last_backoff_seconds"] = last_backoff_seconds
            self._last_update = time.time()

    def inc_nacks(self, count: int = 1) -> None:
        """Messages that were given back."""
        with self._guard:
            self._retry["total_nacks"] += count
            self._last_update = time.time()

    def inc_permanent(self, count: int = 1) -> None:
        """Messages that became dead letters."""
        with self._guard:
            self._retry["total_permanent_failures"] += count
            self._last_update = time.time()

    def set_queue_length(self, agent_key: str, priority: int, length: int) -> None:
        """How many messages of a priority wait for an agent."""
        with self._guard:
            self._queue_lengths[f"{agent_key}|{priority}"] = length
            self._last_update = time.time()

    def set_dlq_length(self, agent_key: str, length: int) -> None:
        """How many dead letters an agent has."""
        with self._guard:
            self._dlq_lengths[agent_key] = length
            self._last_update = time.time()

    def snapshot(self) -> dict[str, Any]:
        """Everything at one moment; `last_update` is in seconds since 1970, None before the first."""
        with self._guard:
            return {
                "retry": dict(self._retry),
                "delivery": dict(self._delivery),
                "gauges": {
                    "queue_lengths": dict(self._queue_lengths),
                    "dlq_lengths": dict(self._dlq_lengths),
                },
                "last_update": self._last_update,
            }


_log = logging.getLogger(__name__)


def _printable(text: str) -> str:
    """As one line that every log can be written in: half a surrogate pair is no text for a file or terminal."""
    return visible_controls(text.encode("utf-8", "backslashreplace").decode()).replace("\n", "\\n")


class SafeMetrics:
    """The metrics of one coordinator. Their exceptions are logged and never affect messages."""

    def __init__(self, metrics: MessageMetrics) -> None:
        self.metrics = metrics

    def count(self, counter: Callable[..., None], *values: object) -> None:
        """Arguments are positional, because implementations differ in the names."""
        try:
            counter(*values)
        except Exception:
            _log.exception("a metric was not counted")

    def count_dead(self, queue: str, buried: Sequence[DeadMessage], error: str | None) -> None:
        """Count and log dead letters."""
        for each in buried:
            text = "DLQ enqueue for %s message_id=%s attempts=%s error=%s"
            _log.error(text, queue, each.message_id, each.attempts, error and _printable(error))
        if buried:
            self.count(self.metrics.inc_permanent, len(buried))
