"""Who waits through a client tries again while the store or the server is away; who asks is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from afl.client.async_calls import AsyncCalls
from afl.client.async_handle import AsyncRunHandle
from afl.client.calls import Calls
from afl.client.handle import RunHandle
from afl.client.store_client import StoreClient
from afl.kernel.errors import AgentFlowError, StoreUnavailable, Throttled
from afl.kernel.settings import load_settings
from afl.operations.problems import ServerAway
from afl.operations.program.submission import submit_source
from afl.operations.run.run_view import show_run
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

SETTINGS = load_settings({}, environ={})
SOURCE = "workflow Double(n: Int) => (m: Int) andThen { yield Double(m = $.n * 2) }"


class Flaky:
    """A client whose store or server does not answer the first call of each operation."""

    def __init__(self, store: PersistenceAPI, error: type[AgentFlowError]) -> None:
        self._client = StoreClient(store, SETTINGS)
        self._error = error
        self.refused: list[str] = []

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if function.__name__ not in self.refused:
            self.refused.append(function.__name__)
            raise self._error("gone for a moment")
        return self._client.call(function, *args, **kwargs)


@pytest.fixture
def store() -> Iterator[PersistenceAPI]:
    store = MemoryStore()
    yield store
    store.close()


@pytest.fixture
def run(store: PersistenceAPI) -> str:
    run = submit_source(store, SOURCE, inputs={"n": 4}).run
    Evaluator(store).resume(WorkflowId(run))
    return run


@pytest.mark.parametrize("error", [StoreUnavailable, Throttled])
def test_a_thread_that_waits_tries_again(
    store: PersistenceAPI, run: str, error: type[AgentFlowError]
) -> None:
    client = Flaky(store, error)
    handle = RunHandle(Calls(client, SETTINGS), run, "Double")
    assert [event.kind for event in handle.events()][-1] == "run-completed"
    assert list(handle.logs(follow=True)) == []
    assert handle.result() == {"m": 8}
    assert client.refused == ["read_events", "read_page", "wait_a_while"]


@pytest.mark.parametrize("error", [ServerAway, Throttled])
def test_a_task_that_waits_tries_again(store: PersistenceAPI, run: str, error: type[AgentFlowError]) -> None:
    async def story() -> None:
        client = Flaky(store, error)
        calls = AsyncCalls(client, SETTINGS)
        handle = AsyncRunHandle(calls, run, "Double")
        assert [event.kind async for event in handle.events()][-1] == "run-completed"
        assert [line async for line in handle.logs(follow=True)] == []
        assert await handle.result() == {"m": 8}
        assert client.refused == ["read_events", "read_page", "wait_for_any"]
        await calls.close()

    asyncio.run(story())


def test_who_asks_is_told(store: PersistenceAPI) -> None:
    with pytest.raises(StoreUnavailable, match="gone for a moment"):
        Calls(Flaky(store, StoreUnavailable), SETTINGS).call(show_run, "x")


def test_a_wait_ends_in_time_though_the_store_is_away(store: PersistenceAPI, run: str) -> None:
    handle = RunHandle(Calls(Flaky(store, StoreUnavailable), SETTINGS), run, "Double")
    with pytest.raises(TimeoutError, match="had not ended after 0 seconds"):
        handle.result(timeout=0)
