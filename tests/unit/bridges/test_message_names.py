"""A name that no queue can have: the step fails, at every attempt, and others get their answers."""

from __future__ import annotations

from support.crossings import Crossing

from afl.bridges.bridge import Host
from afl.bridges.message import MessageBridge, memory
from afl.runtime.memory_store import MemoryStore

BAD = """
event facet Ask(n: Long) => (m: Long) with Message("a:b:c") with Retry(2, backoff = 1)
workflow W(n: Long) => (m: Long) andThen {
    done = Ask(n = $.n)
    yield W(m = done.m)
}
"""
GOOD = BAD.replace("a:b:c", "doubler")


def double(n: int) -> dict[str, int]:
    return {"m": n * 2}


def test_a_step_for_a_name_that_cannot_be_fails_at_its_last_attempt() -> None:
    def opened(host: Host) -> MessageBridge:
        return MessageBridge(host, memory(), answering={"doubler": double})

    store = MemoryStore()
    with Crossing(store, "memory://", poll_interval_ms=20) as crossing:
        crossing.host(message=opened)
        bad, good = crossing.submit(BAD, {"n": 1}), crossing.submit(GOOD, {"n": 2})
        crossing.until(bad, "failed")
        crossing.until(good, "completed")
        task = crossing.task(bad)
        assert (task.failures, (task.error or {})["type"]) == (1, "MessageRefused")
    store.close()
