"""Counting and logging what becomes of messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from afl.coordination.broker import Burial
from afl.coordination.interfaces import MessageMetrics

_log = logging.getLogger(__name__)


class Meter:
    """The metrics of one coordinator. They must not break messages: what they raise is logged, and that is all."""

    def __init__(self, metrics: MessageMetrics) -> None:
        self.metrics = metrics

    def count(self, counter: Callable[..., None], *values: object) -> None:
        """Positional, because implementations do not agree on the names."""
        try:
            counter(*values)
        except Exception:
            _log.exception("a metric was not counted")

    def mourn(self, queue: str, buried: Sequence[Burial], error: str | None) -> None:
        """Messages went to the dead letters."""
        for each in buried:
            text = "DLQ enqueue for %s message_id=%s attempts=%s error=%s"
            _log.error(text, queue, each.message_id, each.attempts, error)
        if buried:
            self.count(self.metrics.inc_permanent, len(buried))
