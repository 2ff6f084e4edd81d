"""Thousands of waiters in one process."""

from __future__ import annotations

import asyncio

import pytest
from support.threads import newcomers

import afl

SOURCE = (
    "event facet Ask() => (n: Long)\nworkflow W(n: Long) => (n: Long) andThen { a = Ask() yield W(n = a.n) }"
)
RUNS, WAITERS = 20, 50


@pytest.mark.parametrize("kind", ["empty_sqlite_url", "empty_postgres_url"])
def test_a_thousand_waiters_need_five_threads(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(kind)
    threads = newcomers()

    async def story() -> None:
        async with asyncio.timeout(120), afl.connect(url) as flow, afl.connect(url) as other:
            handles = [await flow.start(SOURCE, n=n) for n in range(RUNS)]
            waiting = [asyncio.create_task(each.result()) for each in handles for _ in range(WAITERS)]
            given_up = [asyncio.create_task(each.result()) for each in handles]
            impatient = [asyncio.create_task(each.result(timeout=0.01)) for each in handles]
            late = await asyncio.gather(*impatient, return_exceptions=True)
            assert {type(each) for each in late} == {TimeoutError}
            assert len(threads()) < 5  # beside the main thread
            for each in given_up:
                each.cancel()
            async with other.worker({"Ask": lambda: {"n": 7}}):
                assert await asyncio.gather(*waiting) == [{"n": 7}] * (RUNS * WAITERS)
            await asyncio.gather(*given_up, return_exceptions=True)
            await asyncio.sleep(0)  # the task that waited for all of them ends
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())
    assert [name for name in threads() if not name.startswith("asyncio")] == []
