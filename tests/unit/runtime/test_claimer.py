"""When a worker asks the store for tasks."""

from __future__ import annotations

from afl.runtime.memory_store import MemoryStore
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.worker.claimer import Claimer
from afl.runtime.worker.options import WorkerOptions


def test_without_room_there_is_no_reason_to_claim(store: MemoryStore) -> None:
    """Neither a notification nor a delayed task that is due keeps the worker awake: a result makes room."""
    claimer = Claimer(store, Handlers.of({"Double": lambda n: n}), WorkerOptions())
    assert claimer.timeout(1) == 0.0
    assert claimer.timeout(0) is None
    assert claimer.claim(1) == []
    assert claimer.timeout(1) is None
    claimer.notify()
    assert claimer.timeout(0) is None
    assert claimer.timeout(1) == 0.0
