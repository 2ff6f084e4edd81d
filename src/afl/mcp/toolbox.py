"""From a function to a tool: typed parameters, structured output with its schema, errors in the product's own words."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, get_type_hints

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata, func_metadata
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from afl.kernel.errors import AgentFlowError
from afl.operations import serialization
from afl.operations.problems import problem_of

ToolFunction = Callable[..., Awaitable[Any]]
_CONTEXT = "context"

LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)
ENDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


def tool(function: ToolFunction, title: str, kind: ToolAnnotations) -> Tool:
    """A tool of that name; what the function says of itself is the description, its return type the output's schema.

    What is no object is given as the field `result` of one.
    """
    returned = get_type_hints(function)["return"]
    arguments = func_metadata(function, skip_names=[_CONTEXT], structured_output=False).arg_model
    schema, wraps_result = _output_schema(returned)
    return Tool(
        fn=_answering(function, wraps_result),
        name=function.__name__,
        title=title,
        description=inspect.getdoc(function) or title,
        parameters=arguments.model_json_schema(by_alias=True),
        fn_metadata=FuncMetadata(arg_model=arguments, output_schema=schema),
        is_async=True,
        context_kwarg=_CONTEXT,
        annotations=kind,
    )


def _answering(function: ToolFunction, wraps_result: bool) -> ToolFunction:
    @wraps(function)
    async def answer(**given: Any) -> CallToolResult:
        try:
            found = serialization.plain(await function(**given))
        except AgentFlowError as error:
            raise ToolError(said(error)) from error
        shown = {"result": found} if wraps_result else found
        text = TextContent(type="text", text=serialization.encode(shown).decode())
        return CallToolResult(content=[text], structured_content=shown)

    return answer


def said(error: AgentFlowError) -> str:
    """An error as a model reads it: what is wrong, and what helps."""
    problem = problem_of(error)
    return f"{problem.message}\n{problem.hint}" if problem.hint else problem.message


def _output_schema(kind: Any) -> tuple[dict[str, Any], bool]:
    (found,), components = serialization.schemas([kind], reference="#/$defs/{name}")
    name = str(found.get("$ref", "")).rpartition("/")[2]
    whole = components[name] if name else found
    if whole.get("type") == "object":
        return {**whole, "$defs": components}, False
    return {
        "type": "object",
        "properties": {"result": found},
        "required": ["result"],
        "$defs": components,
    }, True
