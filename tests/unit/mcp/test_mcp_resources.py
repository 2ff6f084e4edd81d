"""The list of resources: the newest runs, as the store has them when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from support.agents import DOUBLE
from support.mcp_clients import good, tell

from afl.client.store_client import StoreClient
from afl.kernel.errors import StoreUnavailable
from afl.runtime.memory_store import MemoryStore


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


def test_the_newest_runs_are_listed_as_resources(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afl.mcp.resources._MOST_RUNS", 2)

    async def story(client: Client) -> None:
        lists = {each.uri: each for each in (await client.list_resources()).resources}
        assert set(lists) == {"afl://runs", "afl://workflows", "afl://flows", "afl://approvals"}
        for uri in lists:
            await client.read_resource(uri)
        given = {"source": DOUBLE, "workflow": "ns.Once", "inputs": {"n": 4}}
        runs = [(await good(client, "run", **given))["run"] for _ in range(3)]
        await good(client, "cancel_run", run=runs[2])
        newest, older = [each for each in (await client.list_resources()).resources if each.uri not in lists]
        assert [newest.uri, older.uri] == [f"afl://runs/{runs[2]}", f"afl://runs/{runs[1]}"]
        assert (newest.name, newest.title) == (runs[2], "ns.Once, canceled")
        assert newest.description and newest.description.startswith(f"Run {runs[2]} is canceled")
        assert newest.annotations is not None and newest.annotations.last_modified
        (content,) = (await client.read_resource(newest.uri)).contents
        assert json.loads(content.text)["line"]["run"] == runs[2]  # type: ignore[union-attr]

    tell(store, story)


def test_what_cannot_be_listed_is_said_and_asked_for_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def away(self: StoreClient, function: Callable[..., Any], *_: Any, **__: Any) -> Any:
        asked.append(function.__name__)
        raise StoreUnavailable("the store does not answer")

    async def story(client: Client) -> None:
        with pytest.raises(MCPError, match="the store does not answer"):
            await client.list_resources()

    monkeypatch.setattr(StoreClient, "call", away)
    tell(store, story)
    assert asked == ["list_runs"]
