"""`stream` and `events` of `flow.turns`: on a store and over HTTP, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from support.clients import opened_client
from support.dashboards import served, settings_for
from support.speaking import SpeakingModel

from afl.models.scripted import calls
from afl.turns import AgentEvent, open_agents

PIECES = ["It is ", "five", "."]


def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@pytest.mark.parametrize("synchronous", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "http"])
def test_a_turn_is_streamed_and_read_on(request: pytest.FixtureRequest, kind: str, synchronous: bool) -> None:
    store: str = request.getfixturevalue(f"empty_{'postgres' if kind == 'postgres' else 'sqlite'}_url")
    model = SpeakingModel([calls("add", {"a": 2, "b": 3}), PIECES])

    async def story(server: str) -> None:
        settings, seen = settings_for(store, server=server), list[AgentEvent]()
        async with (
            open_agents(store, model=model) as agents,
            opened_client(settings, synchronous=synchronous) as flow,
        ):
            await agents.define("clerk", "You add.", tools=[add])
            async for event in flow.turns.stream("clerk", "2 and 3?"):
                seen.append(event)
                if event.kind == "text":
                    model.go_on()
            called = next(event for event in seen if event.kind == "tool-call")
            rest = [event async for event in flow.turns.events(called.turn, after=called.position)]
        assert [event.text for event in seen if event.kind == "text"] == PIECES
        assert [event.kind for event in rest] == ["tool-result", "step", "text", "message", "result"]
        assert (called.tool, called.data, rest[0].data) == ("add", {"a": 2, "b": 3}, 5)
        assert (rest[2].text, rest[-1].text) == ("It is five.", "It is five.")

    with ExitStack() as stack:
        server = stack.enter_context(served(settings_for(store))) if kind == "http" else ""
        asyncio.run(asyncio.wait_for(story(server), 60))
