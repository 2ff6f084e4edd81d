"""Tools of MCP servers: processes and HTTP, with filters, approval, limits, and servers that die."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from support.processes import python
from support.turns_office import Office, Place, office, results_in, run, told_first, wants

from afl.kernel.settings import load_settings
from afl.models import Request, ScriptedModel
from afl.models.scripted import Scripted
from afl.turns import McpServer
from afl.turns.resources import find_profile
from afl.turns.statuses import CardType

NOTES = str(Path(__file__).parents[2] / "support" / "mcp_notes.py")
MEMORY = Place("memory://", None)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "calls"


def notes(journal: Path, **options: Any) -> McpServer:
    return McpServer(command=[sys.executable, NOTES, str(journal)], name="notes", **options)


def told_settings(there: Office, **values: Any) -> None:
    there.agents.toolbox.mcp.settings = load_settings(values, environ={})


def lines(journal: Path) -> list[list[str]]:
    return [line.split() for line in journal.read_text().splitlines()] if journal.exists() else []


def test_the_tools_of_a_process_and_its_deaths(journal: Path) -> None:
    """A call that only reads is made again when the server dies; one that may write is not, and the turn goes on."""

    def answer(request: Request) -> Scripted:
        answered = results_in(request)
        if not answered:
            return wants(("find", {"words": "whales"}))
        if "whales" in answered[0]:
            return wants(("dies_once", {}))
        return wants(("write", {"text": "die"})) if "alive" in answered[0] else answered[0]

    async def work() -> None:
        async with office(MEMORY) as there:
            await there.hire(answer)
            await there.agents.define("ada", "You look.", mcp=[notes(journal, approve="never")])
            turn = await there.agents.send("ada", "Whales?")
            assert "mcp_connection_lost" in (await there.agents.wait(turn)).text
            calls = [card for card in there.output(turn) if card.type == CardType.TOOL_CALL]
            results = [card.content for card in there.output(turn) if card.type == CardType.TOOL_RESULT]
            assert [card.function_name for card in calls] == ["find", "dies_once", "write"]
            assert results[0]["result"] == {"result": "a note about whales"}
            assert results[1]["result"] == {"result": "alive again"}
            assert "not repeated" in results[2]["error"]["message"]
            called = lines(journal)
            assert [tool for tool, *_ in called] == ["find", "dies_once", "dies_once", "write"]
            assert called[0][2] == f"{there.project}/{calls[0].tool_call_id}"
            assert len({pid for _, pid, *_ in called}) == 2
            profile = there.read(lambda tx: find_profile(tx, there.project, "ada"))
            assert profile is not None and profile.profile["mcp"] == ["notes"]  # commands are not stored

    run(work)


def test_a_turn_goes_on_without_a_server_that_is_not_there() -> None:
    async def work() -> None:
        async with office(MEMORY) as there:
            model = ScriptedModel(["Without it, then."])
            await there.hire(model)
            await there.agents.define("ada", "Look.", mcp=[McpServer(command=["/nowhere/to-be-found"])])
            assert (await there.agents.ask("ada", "Go.")).text == "Without it, then."
            assert model.requests[0].system == "Look.\n\nThe tools of to-be-found are not available now."

    run(work)


def test_a_server_over_http(journal: Path) -> None:
    async def work() -> None:
        port = free_port()
        with python(NOTES, str(journal), str(port)) as process:
            await answers(port)
            async with office(MEMORY) as there:
                told_settings(
                    there,
                    mcp_private_addresses="allow",
                    mcp_servers={
                        "web": {"url": f"http://127.0.0.1:{port}/mcp", "allow": ["find", "dies_once"]}
                    },
                )
                await there.hire(told_first([("find", {"words": "whales"}), ("dies_once", {})]))
                await there.agents.define("ada", mcp=["web"])
                said = (await there.agents.ask("ada", "Go.")).text
                assert "mcp_unavailable" in said or "mcp_connection_lost" in said
                assert process.wait() != 0
                assert (await there.agents.ask("ada", "Again.")).succeeded

    run(work)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "http://localhost:1/mcp", "http://[::1]:1/mcp"])
def test_private_addresses_are_refused(url: str) -> None:
    async def work() -> None:
        async with office(MEMORY) as there:
            told_settings(there)
            await there.hire(["never said"])
            await there.agents.define("ada", mcp=[McpServer(url=url)])
            got = await there.agents.ask("ada", "Go.")
            assert not got.succeeded
            assert "not public; set AFL_MCP_PRIVATE_ADDRESSES=allow" in str(got.error)

    run(work)


def test_an_unknown_server_fails_the_turn() -> None:
    async def work() -> None:
        async with office(MEMORY) as there:
            told_settings(there)
            await there.hire(["never said"])
            await there.agents.define("ada", mcp=["github"])
            got = await there.agents.ask("ada", "Go.")
            assert "there is no MCP server 'github' here" in str(got.error)

    run(work)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def answers(port: int) -> None:
    """Until somebody listens there."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return
