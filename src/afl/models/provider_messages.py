"""Requests and replies as Pydantic AI has them: our messages to its own, and its responses to ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from afl.models.content import Content, File, FileRef, FileUrl
from afl.models.messages import (
    Block,
    Message,
    Opaque,
    Reply,
    Request,
    StopReason,
    Text,
    Tool,
    ToolResult,
    ToolUse,
)
from afl.models.usage import Usage

_PART: TypeAdapter[ModelResponsePart] = TypeAdapter(ModelResponsePart)
_NO_NAME = "unnamed"  # for a call without one: it is answered, and no provider would take it back as it is
_DETAILS = ("id", "provider_name", "provider_details")
_STOPS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_call": StopReason.TOOL_USE,
    "content_filter": StopReason.REFUSAL,
}
_Url = ImageUrl | AudioUrl | VideoUrl | DocumentUrl
_URLS: dict[str, type[_Url]] = {
    "image": ImageUrl,
    "audio": AudioUrl,
    "video": VideoUrl,
    "document": DocumentUrl,
}
_OWN_STOPS = frozenset(value for name, value in vars(StopReason).items() if name.isupper())


def messages_of(request: Request) -> list[ModelMessage]:
    """The conversation; every result of a tool has the name of the tool that its call names."""
    tools = {
        block.id: block.name
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolUse)
    }
    made: list[ModelMessage] = [_message(message, tools) for message in request.messages]
    for position in range(len(made) - 1, -1, -1):
        last = made[position]
        if isinstance(last, ModelRequest):
            made[position] = replace(last, instructions=request.system or None)
            break
    return made


def parameters_of(request: Request) -> ModelRequestParameters:
    """The tools that the model may call."""
    return ModelRequestParameters(function_tools=[_tool(tool) for tool in request.tools])


def reply_of(response: ModelResponse, name: str) -> Reply:
    """A response as we have it; `name` is the full name of the model that answered."""
    content = tuple(_block(part) for part in response.parts if not _is_empty(part))
    refusal = (response.provider_details or {}).get("refusal")  # with OpenAI it is not part of the text
    if refusal and not any(isinstance(block, Text) for block in content):
        content = (*content, Text(str(refusal)))
    return Reply(content, _stop_reason(response, content), usage_of(response.usage), name)


def usage_of(used: RequestUsage) -> Usage:
    """Tokens. With Pydantic AI those of a cache are part of the input; here they stand beside it."""
    read, written = used.cache_read_tokens or 0, used.cache_write_tokens or 0
    return Usage(max(0, (used.input_tokens or 0) - read - written), used.output_tokens or 0, read, written)


def _message(message: Message, tools: Mapping[str, str]) -> ModelMessage:
    if message.role == "assistant":
        said = [_response_part(block) for block in message.content]
        return ModelResponse(parts=said, provider_name=_provider(said))
    if not any(isinstance(block, Content) for block in message.content):
        return ModelRequest(parts=[_request_part(block, tools) for block in message.content])
    parts: list[ModelRequestPart] = []
    for is_result, blocks in groupby(message.content, lambda block: isinstance(block, ToolResult)):
        if is_result:
            parts += [_request_part(block, tools) for block in blocks]
        else:  # text and files stand in one prompt, in their order
            parts.append(UserPromptPart([user_content(block) for block in blocks]))
    return ModelRequest(parts=parts)


def user_content(block: Block) -> UserContent:
    """A block of the user in a prompt that has files."""
    match block:
        case Text(text):
            return text
        case File(data, media_type):
            return BinaryContent.narrow_type(BinaryContent(data, media_type=media_type))
        case FileUrl(url, kind, media_type):
            return _URLS[kind](url, media_type=media_type or None)
        case FileRef(sha256):
            raise TypeError(f"the bytes of file {sha256} were not loaded")
        case _:
            raise TypeError(f"a message of the user has no {type(block).__name__}")


def _request_part(block: Block, tools: Mapping[str, str]) -> ModelRequestPart:
    match block:
        case ToolResult(tool_use_id, content, is_error, files):
            said = [content] if content else []
            return ToolReturnPart(
                tools.get(tool_use_id, "unknown"),
                [*said, *map(user_content, files)] if files else content,
                tool_use_id,
                outcome="failed" if is_error else "success",
            )
        case Text(text):
            return UserPromptPart(text)
        case _:
            raise TypeError(f"a message of the user has no {type(block).__name__}")


def _response_part(block: Block) -> ModelResponsePart:
    match block:
        case Text(text, details):
            return TextPart(text, **details)
        case ToolUse(id, name, given, details):
            return ToolCallPart(name, dict(given), id, **details)
        case Opaque(data):
            return _PART.validate_python(data) if "part_kind" in data else _thinking(data)
        case _:
            raise TypeError(f"a message of the model has no {type(block).__name__}")


def _thinking(data: Mapping[str, Any]) -> ThinkingPart:
    """A block of the Messages API, as the `anthropic` client gave it."""
    if data.get("type") == "redacted_thinking":
        return ThinkingPart("", id="redacted_thinking", signature=data.get("data"), provider_name="anthropic")
    return ThinkingPart(
        str(data.get("thinking", "")), signature=data.get("signature"), provider_name="anthropic"
    )


def _provider(parts: Sequence[ModelResponsePart]) -> str | None:
    """Whose response it was; a provider reads again only what it signed itself."""
    return next((name for part in parts if (name := getattr(part, "provider_name", None))), None)


def _tool(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=dict(tool.input_schema)
    )


def _block(part: ModelResponsePart) -> Block:
    if isinstance(part, TextPart):
        return Text(part.content, _details(part))
    if isinstance(part, ToolCallPart):
        return ToolUse(part.tool_call_id, part.tool_name or _NO_NAME, part.args_as_dict(), _details(part))
    data: dict[str, Any] = _PART.dump_python(part, mode="json", exclude_none=True)
    return Opaque(data)


def _is_empty(part: ModelResponsePart) -> bool:
    return isinstance(part, TextPart) and not part.content and not _details(part)


def _details(part: TextPart | ToolCallPart) -> dict[str, Any]:
    return {name: value for name in _DETAILS if (value := getattr(part, name)) is not None}


def _stop_reason(response: ModelResponse, content: Sequence[Block]) -> str:
    """The provider's own word where we have the same one; else by what Pydantic AI makes of it."""
    own = (response.provider_details or {}).get("finish_reason")
    if own in _OWN_STOPS:
        return str(own)
    if response.finish_reason in (None, "stop"):
        used = any(isinstance(block, ToolUse) for block in content)
        return StopReason.TOOL_USE if used else StopReason.END_TURN
    return _STOPS.get(response.finish_reason, str(response.finish_reason))
