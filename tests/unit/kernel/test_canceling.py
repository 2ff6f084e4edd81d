"""Tasks end, even those that do not hear the first time."""

from __future__ import annotations

import asyncio
import gc

import pytest

from afl.kernel import canceling
from afl.kernel.canceling import cancel_and_wait


def test_tasks_have_ended_whatever_they_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canceling, "_AGAIN_SECONDS", 0.01)

    async def sleep() -> None:
        await asyncio.Event().wait()

    async def deaf() -> None:
        """Catches a cancellation where it should not."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    async def fail() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while it ended")

    async def main() -> list[BaseException | None]:
        tasks = [asyncio.create_task(each()) for each in (sleep, deaf, fail)]
        done = asyncio.create_task(asyncio.sleep(0))
        await done
        await cancel_and_wait([*tasks, done])
        await cancel_and_wait([])
        assert all(task.done() for task in tasks)
        return [task.exception() if not task.cancelled() else None for task in tasks]

    sleeping, deafened, failed = asyncio.run(main())
    assert (sleeping, deafened, str(failed)) == (None, None, "while it ended")


def test_what_a_task_raised_is_not_complained_of(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("before anybody asked it to end")

    async def main() -> None:
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        await cancel_and_wait([task])

    asyncio.run(main())
    gc.collect()
    assert caplog.records == []
