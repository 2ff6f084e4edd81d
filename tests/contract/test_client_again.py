"""`rerun` and `fork` of a client's handle: on a store and over HTTP, synchronous and asynchronous."""

from __future__ import annotations

import asyncio

import pytest
from support.clients import opened_client
from support.dashboards import served, settings_for

from afl.kernel.errors import InputError
from afl.runtime.evaluation.fork_check import ForkRefused

SOURCE = """
event facet Ask(question: String) => (answer: String)

workflow Quiz(question: String) => (answer: String) andThen {
    first = Ask(question = $.question)
    second = Ask(question = first.answer ++ "?")
    yield Quiz(answer = second.answer)
}
"""


@pytest.mark.parametrize("synchronous", [False, True], ids=["async", "sync"])
def test_a_run_is_started_again_and_forked(empty_sqlite_url: str, synchronous: bool) -> None:
    settings = settings_for(empty_sqlite_url)
    asked: list[str] = []

    def ask(question: str) -> dict[str, str]:
        asked.append(question)
        return {"answer": question.upper()}

    async def story() -> None:
        async with opened_client(settings, synchronous=synchronous) as flow, flow.worker({"Ask": ask}):
            handle = await flow.start(SOURCE, "Quiz", question="a")
            assert await handle.result(timeout=30) == {"answer": "A?"}
            again = await handle.rerun({"question": "b"})
            assert await again.result(timeout=30) == {"answer": "B?"}
            asked.clear()
            forked = await handle.fork("second", inputs={"question": "c"})
            assert await forked.result(timeout=30) == {"answer": "C"}
            other = await handle.fork("second", results={"first": {"answer": "d"}}, id="mine")
            assert (other.id, await other.result(timeout=30)) == ("mine", {"answer": "D?"})
            assert asked == ["c", "d?"]
            newer = await handle.fork("second", source=SOURCE.replace('"?"', '"!"'))
            assert await newer.result(timeout=30) == {"answer": "A!"}
            origin = (await newer.show()).lineage.origin
            assert origin is not None
            assert (origin.run, origin.step) == (handle.id, "second")

    asyncio.run(asyncio.wait_for(story(), 60))


def test_over_http(empty_sqlite_url: str) -> None:
    settings = settings_for(empty_sqlite_url)

    async def story() -> None:
        with served(settings) as url:
            async with opened_client(settings_for(settings.store, server=url)) as flow:
                handle = await flow.start(SOURCE, "Quiz", question="a")
                again = await handle.rerun({"question": "b"})
                assert (await again.status()).state == "created"
                with pytest.raises(InputError, match="input 'question': expected String"):
                    await handle.rerun({"question": 1})
                with pytest.raises(ForkRefused, match="afl rerun"):
                    await handle.fork("")

    asyncio.run(asyncio.wait_for(story(), 60))
