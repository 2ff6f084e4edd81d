"""kill -9 of the process that runs a served agent: another one goes on, and repeats only what was not done."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from support.turns_office import run, until
from support.warm_processes import WarmPopen

from afl.kernel.database import Database, Query
from afl.turns import open_agents
from afl.turns.resources import get_agent

MODULE = """
import os, threading
from pathlib import Path
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from afl.turns import serve

journal = Path("journal")

def note(what):
    with journal.open("a") as file:
        file.write(f"{what} {os.getpid()}\\n")

def answer(messages, info):
    note(f"asked-{len(messages)}")
    if len(messages) == 1:
        return ModelResponse([ToolCallPart("quick", {}), ToolCallPart("slow", {})])
    return ModelResponse([TextPart(" and ".join(str(part.content) for part in messages[-1].parts))])

agent = Agent(FunctionModel(answer), name="clerk")

@agent.tool_plain
def quick() -> str:
    note("quick")
    return "quick"

@agent.tool_plain
def slow() -> str:
    note("slow")
    if journal.read_text().count("slow") == 1:
        threading.Event().wait()
    return "slow"

clerk = serve(agent)
"""


def results(store: Database) -> int:
    """How many results of tools are stored."""
    counted = Query.of("select count(*) as n from cardbox_cards where type = 'tool.result'")
    row = store.read(lambda tx: tx.one(counted))
    return 0 if row is None else int(row["n"])


def test_another_worker_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(MODULE)
    journal = tmp_path / "journal"
    store = f"sqlite:///{tmp_path}/afl.db"

    def lines() -> list[list[str]]:
        return [line.split() for line in journal.read_text().splitlines()] if journal.exists() else []

    async def work() -> None:
        workers = [
            WarmPopen(["-m", "afl", "turns", "worker", "shop.py", "--store", store], cwd=tmp_path)
            for _ in range(2)
        ]
        try:
            async with open_agents(store) as agents:
                await until(lambda: agents.engine.database.read(lambda tx: get_agent(tx, "main", "clerk")))
                turn = await agents.send("clerk", "Go.")
                await until(lambda: len(lines()) == 3 and results(agents.engine.database) == 1)
                os.kill(int(lines()[0][1]), signal.SIGKILL)
                got = await agents.wait(turn)
        finally:
            for each in workers:
                each.kill()
                await asyncio.to_thread(each.wait)
        assert got.text == "quick and slow"
        assert sorted(what for what, _ in lines()) == ["asked-1", "asked-3", "quick", "slow", "slow"]
        assert len({pid for _, pid in lines()}) == 2

    run(work)
