"""The coordinator in memory: for tests, and for agents that live in one process."""

from __future__ import annotations

from typing import Any

from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.interfaces import MessageMetrics
from afl.coordination.memory_broker import MemoryBroker, MemoryWorld


class InMemoryMessageCoordinator(QueueCoordinator):
    """In-memory implementation of MessageCoordinator. Those that are given the same world share its queues."""

    def __init__(
        self, metrics: MessageMetrics | None = None, *, world: MemoryWorld | None = None, **options: Any
    ) -> None:
        super().__init__(MemoryBroker(world or MemoryWorld()), metrics, options)
