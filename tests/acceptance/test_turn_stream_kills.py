"""A stream goes on while workers of its turn are killed: everything comes once, but for text that was never stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses

from afl.turns import AgentEvent, open_agents

# It adds with a tool, then says the sum; a worker that is told to HOLD stops in the middle of that sentence.
MODULE = """import os
import time

from afl.models import Reply, Text, ToolUse
from afl.models.messages import StopReason, ToolResult
from afl.turns import agent


def add(a: int, b: int) -> int:
    "The sum."
    with open("calls.txt", "a") as lines:
        lines.write("called\\n")
    return a + b


class Speaker:
    name = "speaker"

    def resolve(self, name):
        return name or self.name

    def complete(self, request, on_text=None):
        last = request.messages[-1].content[-1]
        if not isinstance(last, ToolResult):
            return Reply((ToolUse("u", "add", {"a": 2, "b": 3}),), StopReason.TOOL_USE)
        on_text("It is ")
        while os.environ.get("HOLD"):
            time.sleep(60)
        on_text("five.")
        return Reply((Text("It is five."),), StopReason.END_TURN)


model = Speaker()
clerk = agent("clerk", "You add.", tools=[add])
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_stream_goes_on_with_the_worker_that_takes_over(
    request: pytest.FixtureRequest, tmp_path: Path, warm: WarmProcesses, kind: str
) -> None:
    store = (
        f"sqlite:///{tmp_path}/afl.db"
        if kind == "sqlite"
        else str(request.getfixturevalue("postgres_database"))
    )
    (tmp_path / "agents.py").write_text(MODULE)

    def worker(**env: str) -> Warm:
        quick = {"AFL_POLL_INTERVAL_MS": "100", "AFL_LEASE_MS": "1000"}
        command = ("turns", "worker", "agents.py", "--store", store, "--shutdown-timeout", "0.2")
        process = warm.start(*command, folder=tmp_path, **quick | env)
        eventually(lambda: "serves clerk" in process.said(), process.said)
        return process

    async def story() -> list[AgentEvent]:
        seen: list[AgentEvent] = []
        process = await asyncio.to_thread(worker, HOLD="1")
        async with open_agents(store) as agents:
            async for event in agents.stream("clerk", "2 and 3?"):
                seen.append(event)
                if event.kind == "text" and len(seen) < 6:
                    await asyncio.to_thread(process.kill)
                    process = await asyncio.to_thread(worker)
        await asyncio.to_thread(process.terminate)
        return seen

    seen = asyncio.run(asyncio.wait_for(story(), 60))
    told = [(event.kind, event.step) for event in seen if event.kind != "text"]
    assert told == [
        ("step", 1),
        ("tool-call", 1),
        ("tool-result", 1),
        ("step", 2),
        ("step", 2),  # begun again by the other worker
        ("message", 2),
        ("result", 2),
    ]
    again = next(place for place, event in enumerate(seen) if event.position.split(".")[2] == "3")
    assert "".join(event.text for event in seen[:again] if event.kind == "text") == "It is "
    assert "".join(event.text for event in seen[again:] if event.kind == "text") == "It is five."
    assert (tmp_path / "calls.txt").read_text() == "called\n"
