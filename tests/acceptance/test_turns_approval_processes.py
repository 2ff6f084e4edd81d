"""A tool call that waits for a person while its worker is killed, as processes: asked once, made once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses

AGENTS = """from pathlib import Path

from afl.models import Reply, ScriptedModel, ToolUse
from afl.models.messages import StopReason, ToolResult
from afl.turns import agent, tool


@tool(approve="finance")
def pay(cents: int) -> str:
    "Pay."
    with Path("paid").open("a") as book:
        book.write(f"{cents}\\n")
    return f"paid {cents}"


def answer(request):
    last = request.messages[-1].content[-1]
    if isinstance(last, ToolResult):
        return last.content
    return Reply((ToolUse("p", "pay", {"cents": 700}),), StopReason.TOOL_USE)


model = ScriptedModel(answer)
clerk = agent("clerk", tools=[pay])
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_workers_are_killed_before_and_after_the_answer(
    request: pytest.FixtureRequest, tmp_path: Path, warm: WarmProcesses, kind: str
) -> None:
    place = {"AFL_POLL_INTERVAL_MS": "100"}
    if kind == "postgres":
        place["AFL_STORE"] = request.getfixturevalue("postgres_database")
    (tmp_path / "agents.py").write_text(AGENTS)

    def start(*args: str) -> Warm:
        return warm.start(*args, folder=tmp_path, **place)

    def afl(*args: str, code: int = 0) -> str:
        process = start(*args)
        assert process.wait() == code, process.said()
        return process.said()

    def worker() -> Warm:
        process = start("turns", "worker", "agents.py")
        eventually(lambda: "serves clerk" in process.said(), process.said)
        return process

    first = worker()
    afl("turns", "send", "clerk", "Pay Ada.")
    question = eventually(lambda: json.loads(afl("approvals", "--json")), first.said)[0]
    first.kill()
    assert "someone in finance to approve a call of pay" in afl("turns", "why", "clerk")
    second = worker()
    second.kill()
    done = json.loads(afl("approvals", "approve", question["id"], "--set", "cents=5", "--json"))
    assert (done["turn"], done["values"]) == (question["turn"], {"cents": 5})
    assert "was answered by" in afl("approvals", "reject", question["id"], "--feedback", "no", code=1)
    worker()
    shown = eventually(
        lambda: said if "delivers" in (said := afl("turns", "show", "clerk")) else "", first.said
    )
    assert "changed the arguments" in shown and "with other arguments" in shown
    assert (tmp_path / "paid").read_text() == "5\n"
