"""The hub: whoever watches a topic is told when it changed, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse
from support.eventually import eventually
from support.threads import newcomers

from afl.dashboard import live
from afl.dashboard.live import WATCHERS, BackgroundPoll, Hub, Sources, Watcher
from afl.dashboard.streams import live_page_limit
from afl.kernel.settings import Settings
from afl.operations.run.pulse import pulse
from afl.runtime.entities import LogDefinition, RunDefinition
from afl.runtime.memory_store import MemoryStore
from afl.runtime.types import WorkflowId

SECONDS = 30.0


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


@pytest.fixture
def hub(store: MemoryStore) -> Iterator[Hub]:
    made = Hub(store, Settings())
    yield made
    made.close()


def a_run(name: str) -> RunDefinition:
    return RunDefinition(name, "t.W", "hash", settled=True)


async def next_topic(stream: AsyncIterator[str]) -> str:
    async with asyncio.timeout(SECONDS):
        async for text in stream:
            if text.startswith("event: change"):
                return text.partition('"topic": "')[2].partition('"')[0]
    raise AssertionError("the stream ended")


async def opened(hub: Hub, *topics: str) -> AsyncGenerator[str, None]:
    """A stream that is ready: from here on every change is told."""
    state = SimpleNamespace(hub=hub, live_page_limit=live_page_limit(), sessions=None)
    ada = SimpleNamespace(caller=SimpleNamespace(name="ada"))
    request = Request(
        {
            "type": "http",
            "query_string": urlencode([("topic", topic) for topic in topics]).encode(),
            "app": SimpleNamespace(state=state),
            "state": {"client": ada, "session": ""},
        }
    )
    response = await live.events(request)
    assert isinstance(response, StreamingResponse)
    stream = cast("AsyncGenerator[str, None]", response.body_iterator)
    async with asyncio.timeout(SECONDS):
        while "event: ready" not in await anext(stream):
            pass
    return stream


def test_who_watches_is_told(hub: Hub, store: MemoryStore) -> None:
    async def story() -> list[str]:
        stream = await opened(hub, "runs", "run:r1")
        store.insert_run(a_run("r1"))
        received = [await next_topic(stream), await next_topic(stream)]
        store.save_log(LogDefinition("l", 0, "r1", message="hello"))
        return [*sorted(received), await next_topic(stream)]

    assert asyncio.run(story()) == ["run:r1", "runs", "run:r1"]


def test_what_nobody_watches_is_not_looked_at(hub: Hub, store: MemoryStore) -> None:
    async def story() -> str:
        first = await opened(hub, "run:r1")
        second = await opened(hub, "run:r2")
        store.insert_run(a_run("r2"))
        told = await next_topic(second)
        await first.aclose()
        return told

    assert asyncio.run(story()) == "run:r2"


def test_parts_add_watchers_of_their_own(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    value = 1

    def look(sources: Sources, subject: str) -> object:
        return value

    monkeypatch.setitem(WATCHERS, "part", Watcher(look, every_ms=1))

    async def story() -> str:
        nonlocal value
        stream = await opened(hub, "part:x")
        value = 2
        return await next_topic(stream)

    assert asyncio.run(story()) == "part:x"


def test_a_stream_is_ready_when_its_topics_were_looked_at(
    hub: Hub, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page asks for then is not older than what its changes are told against."""
    value, may_look = 1, threading.Event()

    def look(sources: Sources, subject: str) -> object:
        may_look.wait(SECONDS)
        return value

    monkeypatch.setitem(WATCHERS, "part", Watcher(look, every_ms=1))

    async def story() -> str:
        nonlocal value
        opening = asyncio.create_task(opened(hub, "part:x"))
        await asyncio.wait([opening], timeout=0.2)
        assert not opening.done()
        value = 2
        may_look.set()
        stream = await opening
        value = 3
        return await next_topic(stream)

    assert asyncio.run(story()) == "part:x"


def test_a_closed_hub_ends_its_streams(hub: Hub) -> None:
    threads = newcomers("afl-live")

    async def story() -> list[str]:
        stream = await opened(hub, "runs")
        assert threads() == ["afl-live"]
        await asyncio.to_thread(hub.close)
        async with asyncio.timeout(SECONDS):
            return [text async for text in stream]

    assert asyncio.run(story()) == []
    assert threads() == []


def test_a_thread_looks_only_while_somebody_watches(hub: Hub) -> None:
    threads = newcomers("afl-live")

    async def story() -> None:
        stream = await opened(hub, "runs")
        assert threads() == ["afl-live"]
        await stream.aclose()
        await asyncio.to_thread(eventually, lambda: threads() == [])
        await opened(hub, "runs")

    asyncio.run(story())
    assert hub.count_with([]) == 0


def test_every_topic_of_the_store_has_a_pulse(store: MemoryStore) -> None:
    store.insert_run(a_run("r1"))
    for topic in (
        "run:r1",
        "logs:r1",
        "runs",
        "tasks",
        "servers",
        "schedules",
        "approvals",
        "audit",
        "badges",
    ):
        assert pulse(store, topic) is not None
        assert pulse(store, topic) == pulse(store, topic)
    assert pulse(store, "nothing:of:this") is None
    assert store.run_pulse(WorkflowId("r2")) is None


def test_a_topic_that_cannot_be_looked_at_leaves_the_others_live(
    hub: Hub, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread that looks for all pages goes on, and so do pages that come later."""

    def broken(sources: Sources, subject: str) -> object:
        raise TypeError("a mistake of ours")

    monkeypatch.setitem(WATCHERS, "broken", Watcher(broken))

    async def story() -> str:
        first = await opened(hub, "broken")
        stream = await opened(hub, "runs")
        store.insert_run(a_run("r1"))
        topic = await next_topic(stream)
        await stream.aclose()
        await first.aclose()
        return topic

    assert asyncio.run(story()) == "runs"
    assert [each.message for each in caplog.records] == ["the live view cannot look at broken"]


def test_parts_are_watched_where_settings_hold_maps(store: MemoryStore) -> None:
    """As those of a configuration file with users do."""
    seen = threading.Event()

    @contextmanager
    def look_with(sources: Sources) -> Iterator[Callable[[str], object]]:
        yield lambda subject: seen.set()

    poll = BackgroundPoll(look_with, every_seconds=0.01)
    settings = Settings(users=(("ada", {"role": "viewer"}),))
    assert poll.see(Sources(store, settings), "") is None
    assert seen.wait(SECONDS)
