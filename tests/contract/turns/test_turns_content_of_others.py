"""Files of agents of Pydantic AI, and of tools of MCP servers."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
)
from pydantic_ai import Agent, BinaryContent, ToolReturn
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from support.event_loop import in_event_loop

from afl.kernel.database import Database
from afl.models import File, ScriptedModel
from afl.turns import Limits, open_agents
from afl.turns.content.keeper import ContentKeeper
from afl.turns.mcp.connection import McpConnection
from afl.turns.mcp.content import MOST_FILES, split_content
from afl.turns.mcp.server import McpServer
from afl.turns.mcp.tools import local_tools, result_of
from afl.turns.served.files import put_back, take_out
from afl.turns.store.tables import ensure_tables
from afl.turns.tools.local import ToolCall, ToolCaller
from afl.turns.tools.outcome import Outcome

LARGE = BinaryContent(bytes(range(256)) * 8, media_type="image/png")
SMALL = BinaryContent(b"small", media_type="image/png")
LIMITS = Limits(inline_bytes=100, file_bytes=10_000)


def contents(messages: list[ModelMessage]) -> list[bytes]:
    """All files that a model gets."""
    found = []
    for part in (part for message in messages for part in message.parts):
        content = part.content if isinstance(part, UserPromptPart) else getattr(part, "content", ())
        for each in content if isinstance(content, (list, tuple)) else [content]:
            if isinstance(each, BinaryContent):
                found.append(each.data)
    return found


@in_event_loop
async def test_a_served_agent_gets_files_and_its_tools_return_them(
    database: Database, tmp_path: Path
) -> None:
    seen: list[list[bytes]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(contents(messages))
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("draw", {}, "a")])
        return ModelResponse([TextPart("Drawn.")])

    agent = Agent(FunctionModel(answer), name="artist")

    @agent.tool_plain
    def draw() -> Any:
        return ToolReturn([LARGE, SMALL], metadata={"a": 1})

    model = ScriptedModel([])
    async with open_agents(database, model=model, limits=LIMITS, blobs=str(tmp_path)) as agents:
        await agents.serve(agent)
        session = agents.session("one", "artist")
        assert (await session.ask(["Draw this:", LARGE])).text == "Drawn."
        assert (await session.ask("Again")).text == "Drawn."
    assert seen[0] == [LARGE.data]
    assert sorted(seen[1]) == sorted([LARGE.data, LARGE.data, SMALL.data])
    assert sorted(set(seen[2])) == sorted({LARGE.data, SMALL.data})  # the next turn of the session
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


@in_event_loop
async def test_a_served_agents_file_that_is_too_large_is_told_to_its_model(
    database: Database, tmp_path: Path
) -> None:
    told: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told.append(str(messages[-1]))
        return ModelResponse([TextPart("No.")] if len(messages) > 1 else [ToolCallPart("draw", {}, "a")])

    agent = Agent(FunctionModel(answer), name="artist")

    @agent.tool_plain
    def draw() -> Any:
        return BinaryContent(bytes(20_000), media_type="image/png")

    async with open_agents(database, model=ScriptedModel([]), limits=LIMITS, blobs=str(tmp_path)) as agents:
        await agents.serve(agent)
        assert (await agents.ask("artist", "Draw")).text == "No."
    assert "larger than the limit of 10,000 bytes" in told[1]


def test_files_are_taken_out_and_put_back() -> None:
    data = {
        "a": [1, {"kind": "binary", "data": "aGk=", "media_type": "image/png", "x": 1}],
        "b": {"kind": "binary", "data": "no base64!", "media_type": "image/png"},
        "c": {"kind": "binary", "data": "aGk=", "media_type": "evil\ntype"},
        "d": {"kind": "binary", "data": "aGk="},
    }
    taken = take_out(data)
    assert taken.files == [File(b"hi", "image/png")]
    assert taken.places == [["a", 1]]
    assert taken.data["a"][1] == {"kind": "binary", "data": "", "media_type": "image/png", "x": 1}
    assert put_back(taken.data, taken.places, [b"hi"]) == data


def gallery() -> MCPServer:
    server = MCPServer("gallery", log_level="CRITICAL")

    @server.tool()
    def show() -> CallToolResult:
        data = b64encode(LARGE.data).decode()
        blob = BlobResourceContents(uri="file:///a/../report.pdf", mime_type="application/pdf", blob="aGk=")
        return CallToolResult(
            content=[
                TextContent(type="text", text="Two pictures:"),
                ImageContent(type="image", data=data, mime_type="image/png"),
                AudioContent(type="audio", data="aGk=", mime_type="audio/wav"),
                EmbeddedResource(type="resource", resource=blob),
            ]
        )

    return server


@in_event_loop
async def test_files_of_an_mcp_tool(database: Database, tmp_path: Path) -> None:
    ensure_tables(database)
    server = McpServer(command=["gallery"], approve="never")
    connection = McpConnection(server, lambda: Client(gallery()))
    caller = ToolCaller(content=ContentKeeper(database, LIMITS, str(tmp_path)))
    try:
        (tool,) = local_tools(connection, await connection.tools(), ())
        outcome: Outcome = await caller.call(tool, ToolCall("c1", tool.name, "p", "ada", "t1"), {})
    finally:
        caller.close()
        await connection.close()
    assert outcome.succeeded
    kinds = [part.get("media_type", "text") for part in outcome.parts]
    assert kinds == ["text", "image/png", "audio/wav", "application/pdf"]
    assert outcome.parts[3]["name"] == "report.pdf"
    assert "(file report.pdf, application/pdf, 2 bytes)" in outcome.result


@pytest.mark.parametrize(
    ("data", "kind"), [("!", "image/png"), ("aGk=", "image/png\r\nX: 1"), ("aGk=" + "=" * 9, "nothing")]
)
def test_what_cannot_be_read_of_an_mcp_tool_is_told_in_words(data: str, kind: str) -> None:
    block = ImageContent(type="image", data=data, mime_type=kind)
    told = result_of(CallToolResult(content=[block]), 1_000)
    assert isinstance(told, str)
    assert told.startswith("(image")


def test_an_mcp_tool_gives_no_endless_files() -> None:
    block = ImageContent(type="image", data="aGk=", mime_type="image/png")
    words, files = split_content([block] * (MOST_FILES + 3))
    assert (len(words), len(files)) == (3, MOST_FILES)
    result = CallToolResult(content=[block], structured_content={"a": 1, "__cg_control": {}})
    assert result_of(result, 1_000) == ['{"a":1}', File(b"hi", "image/png")]
