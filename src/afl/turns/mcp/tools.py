"""Tools of MCP servers as tools of an agent. What a server says of them, and what they answer, is not trusted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_types import CallToolResult, TextContent
from mcp_types import Tool as McpToolDefinition

from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.models import PythonTool, Tool
from afl.models.content import File, file_name
from afl.turns.cardbox.cards import CONTROL
from afl.turns.cardbox.parts import decoded
from afl.turns.mcp.connection import McpConnection
from afl.turns.mcp.server import McpServer
from afl.turns.tools.approval import ApprovalRule
from afl.turns.tools.local import LocalTool, current_call
from afl.turns.tools.outcome import ToolFailure
from afl.turns.tools.tool_names import LONGEST_NAME, NOT_IN_A_NAME

MOST_TOOLS = 128
MOST_FILES = 20
LARGEST_SCHEMA = 50_000  # characters
IDEMPOTENCY_KEY = "agentflow/idempotency-key"  # in the `_meta` of a call
_log = logging.getLogger("afl.turns")


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server. The server's word is all there is for whether it only reads, or may be repeated."""

    server: McpServer
    name: str  # what the server calls it
    offered: Tool  # as the model sees it
    is_read_only: bool = False
    is_idempotent: bool = False

    @property
    def is_repeatable(self) -> bool:
        return self.is_read_only or self.is_idempotent


def needs_approval(tool: McpTool) -> bool:
    """Whether a person has to allow a call: by default of every tool that is not declared read-only."""
    if tool.server.approve == "never":
        return False
    return tool.server.approve == "always" or not tool.is_read_only


@dataclass(frozen=True)
class _AnyArguments(PythonTool):
    """The server itself checks the arguments."""

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return dict(given)


def local_tools(
    connection: McpConnection, found: Iterable[McpToolDefinition], taken: Iterable[str]
) -> list[LocalTool]:
    """The tools of a server that may be offered. Names that are `taken`, for example by functions, stay theirs."""
    seen = set(taken)
    made: list[LocalTool] = []
    server = connection.server
    for each in found:
        if not server.offers(each.name):
            continue
        tool = tool_of(server, each)
        if tool is None or tool.offered.name in seen:
            _log.warning(
                "MCP server %s: its tool %.80r is not offered: %s",
                server.name,
                each.name,
                "its schema is too large" if tool is None else "another tool has its name",
            )
            continue
        if len(made) == MOST_TOOLS:
            _log.warning(
                "MCP server %s has more than %d tools; say which to `allow`", server.name, MOST_TOOLS
            )
            break
        seen.add(tool.offered.name)
        made.append(_local(connection, tool))
    return made


def tool_of(server: McpServer, found: McpToolDefinition) -> McpTool | None:
    """A tool as it is offered; None if its schema is too large."""
    schema = dict(found.input_schema)
    if len(codec.encode(schema, what="a schema")) > LARGEST_SCHEMA:
        return None
    name = NOT_IN_A_NAME.sub("_", f"{server.prefix}{found.name}")[:LONGEST_NAME]
    description = cut(found.description or f"The tool {found.name}.", server.max_description)
    hints = found.annotations
    reads = hints is not None and hints.read_only_hint is True
    repeats = hints is not None and hints.idempotent_hint is True
    schema.setdefault("type", "object")
    return McpTool(server, found.name, Tool(name, description, schema), reads, repeats)


def result_of(result: CallToolResult, most: int) -> Any:
    """What the model is told: the structured result, else the text, and the files; ToolFailure if the tool failed."""
    told, files = split_content(result.content)
    words = "\n".join(_words(block) for block in told)
    if result.is_error:
        raise ToolFailure("mcp_tool_error", cut(words or "the tool failed", most))
    if result.structured_content is None:
        text = cut(words, most)
        return [*([text] if text else []), *files] if files else text
    data = _structured(result.structured_content, most)
    if not files:
        return data
    return [data if isinstance(data, str) else codec.encode(data), *files]


def _structured(content: Mapping[str, Any], most: int) -> Any:
    data = {name: value for name, value in content.items() if name != CONTROL}
    told = codec.encode(data, what="the result of an MCP tool")
    return data if len(told) <= most else cut(told, most)


def cut(text: str, most: int) -> str:
    """A text of at most so many characters, that says if there was more."""
    return text if len(text) <= most else f"{text[:most]}... (cut: it has {len(text)} characters)"


def _words(block: Any) -> str:
    if isinstance(block, TextContent):
        return block.text
    text = getattr(getattr(block, "resource", None), "text", None)
    if isinstance(text, str):
        return text
    kind = getattr(block, "mime_type", None) or ""
    return f"({block.type} {kind}".rstrip() + f" {getattr(block, 'uri', '')}".rstrip() + ")"


def _local(connection: McpConnection, tool: McpTool) -> LocalTool:
    async def call(**given: Any) -> Any:
        meta = {IDEMPOTENCY_KEY: current_call().idempotency_key}
        result = await connection.call(tool.name, given, meta=meta, repeatable=tool.is_repeatable)
        return result_of(result, tool.server.max_result)

    asks = ApprovalRule(tool.server.approve_group or True) if needs_approval(tool) else None
    return LocalTool(_AnyArguments(tool.offered, call, {}), timeout=tool.server.timeout, approval=asks)


def names_of(tools: Sequence[LocalTool]) -> frozenset[str]:
    return frozenset(tool.name for tool in tools)


def file_in(block: Any) -> File | None:
    """The file that a block of a result is; None if it is none, or cannot be read."""
    try:
        if block.type in ("image", "audio"):
            return File(decoded(block.data, block.type), block.mime_type)
        blob = getattr(getattr(block, "resource", None), "blob", None)
        if isinstance(blob, str):
            kind = block.resource.mime_type or "application/octet-stream"
            return File(decoded(blob, "a resource"), kind, file_name(str(block.resource.uri)))
    except InputError:
        return None
    return None


def split_content(blocks: Iterable[Any]) -> tuple[list[Any], list[File]]:
    """The blocks that are told in words, and the files among the others."""
    words: list[Any] = []
    files: list[File] = []
    for block in blocks:
        file = file_in(block) if len(files) < MOST_FILES else None
        if file is None:
            words.append(block)
        else:
            files.append(file)
    return words, files
