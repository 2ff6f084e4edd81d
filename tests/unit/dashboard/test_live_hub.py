"""The hub: whoever watches a topic is told when it changed, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse
from support.eventually import eventually
from support.threads import newcomers

from afl.dashboard import live
from afl.dashboard.live import WATCHERS, Hub, Sources, Watcher
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


@pytest.fixture(autouse=True)
def looked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The topics of the store that a hub has looked at."""
    topics: set[str] = set()

    def noted(store: MemoryStore, topic: str) -> object:
        value = pulse(store, topic)
        topics.add(topic)
        return value

    monkeypatch.setattr(live, "pulse", noted)
    return topics


def a_run(name: str) -> RunDefinition:
    return RunDefinition(name, "t.W", "hash", settled=True)


async def next_topic(stream: AsyncIterator[str]) -> str:
    async with asyncio.timeout(SECONDS):
        async for text in stream:
            if text.startswith("event: change"):
                return text.partition('"topic": "')[2].partition('"')[0]
    raise AssertionError("the stream ended")


async def opened(hub: Hub, looked: set[str], *topics: str) -> AsyncGenerator[str, None]:
    """A stream whose topics the hub has looked at once: from here on every change is told."""
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
    looked.difference_update(topics)
    response = await live.events(request)
    assert isinstance(response, StreamingResponse)
    stream = cast("AsyncGenerator[str, None]", response.body_iterator)
    assert "event: ready" in await anext(stream)
    await asyncio.to_thread(eventually, lambda: looked.issuperset(topics))
    return stream


def test_who_watches_is_told(hub: Hub, looked: set[str], store: MemoryStore) -> None:
    async def story() -> list[str]:
        stream = await opened(hub, looked, "runs", "run:r1")
        store.insert_run(a_run("r1"))
        received = [await next_topic(stream), await next_topic(stream)]
        store.save_log(LogDefinition("l", 0, "r1", message="hello"))
        return [*sorted(received), await next_topic(stream)]

    assert asyncio.run(story()) == ["run:r1", "runs", "run:r1"]


def test_what_nobody_watches_is_not_looked_at(hub: Hub, looked: set[str], store: MemoryStore) -> None:
    async def story() -> str:
        first = await opened(hub, looked, "run:r1")
        second = await opened(hub, looked, "run:r2")
        store.insert_run(a_run("r2"))
        told = await next_topic(second)
        await first.aclose()
        return told

    assert asyncio.run(story()) == "run:r2"


def test_parts_add_watchers_of_their_own(hub: Hub, looked: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    value = 1

    def look(sources: Sources, subject: str) -> object:
        seen = value
        looked.add(f"part:{subject}")
        return seen

    monkeypatch.setitem(WATCHERS, "part", Watcher(look, every_ms=1))

    async def story() -> str:
        nonlocal value
        stream = await opened(hub, looked, "part:x")
        value = 2
        return await next_topic(stream)

    assert asyncio.run(story()) == "part:x"


def test_a_closed_hub_ends_its_streams(hub: Hub, looked: set[str]) -> None:
    threads = newcomers("afl-live")

    async def story() -> list[str]:
        stream = await opened(hub, looked, "runs")
        assert threads() == ["afl-live"]
        await asyncio.to_thread(hub.close)
        async with asyncio.timeout(SECONDS):
            return [text async for text in stream]

    assert asyncio.run(story()) == []
    assert threads() == []


def test_a_thread_looks_only_while_somebody_watches(hub: Hub, looked: set[str]) -> None:
    threads = newcomers("afl-live")

    async def story() -> None:
        stream = await opened(hub, looked, "runs")
        assert threads() == ["afl-live"]
        await stream.aclose()
        await asyncio.to_thread(eventually, lambda: threads() == [])
        await opened(hub, looked, "runs")

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
