"""How long a request may be sent again: as long as the other side remembers it, counted from when it could be begun."""

from __future__ import annotations

import asyncio

from afl.bridges.bridge import ExternalTask, Outcome
from afl.bridges.message import DEDUP_SECONDS, MessageBridge, memory
from afl.coordination.models import AgentId
from afl.kernel.clock import wall_ms
from afl.runtime.entities import TaskDefinition

LONG_AGO = wall_ms() - round(DEDUP_SECONDS * 2000)


class NoHost:
    async def find(self, external_id: str) -> ExternalTask | None:
        return None

    async def settle(self, outcome: Outcome) -> None: ...

    def wake(self) -> None: ...


def sent(updated: int) -> int:
    """How many requests there are after one external task that was created long ago was started."""

    async def begun() -> int:
        coordinator = memory()
        bridge = MessageBridge(NoHost(), coordinator)
        task = TaskDefinition(
            "task-1",
            "ns.F",
            "",
            "run-1",
            "",
            "s",
            created=LONG_AGO,
            updated=updated,
            via="message:translator",
        )
        await bridge.start(ExternalTask(task, "task-1-1", "translator"))
        waiting = (await coordinator.statistics(AgentId(type="translator"))).ready
        await bridge.close()
        return waiting

    return asyncio.run(begun())


def test_an_attempt_that_comes_late_is_sent() -> None:
    assert sent(updated=wall_ms()) == 1


def test_one_that_the_other_side_may_have_forgotten_is_not_sent_twice() -> None:
    assert sent(updated=LONG_AGO) == 0
