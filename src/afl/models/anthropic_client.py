"""The synchronous client of the package `anthropic`, which ClaudeAgentRunner may be given, or what stands in for it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import anthropic

from afl.models.content import Content, File, FileUrl, described
from afl.models.errors import ModelError, ModelRejected, ModelUnavailable
from afl.models.messages import Block, Message, Opaque, Reply, Request, StopReason, Text, ToolResult, ToolUse
from afl.models.model import OnText
from afl.models.naming import CLAUDES
from afl.models.usage import Usage

_LONG_REPLY = 8192  # the client wants replies streamed that may take long


class AnthropicClientModel:
    """A `Model` that asks by the client's `messages.create`, and by `messages.stream` for a long reply.

    The client keeps its own key, address, timeout and retries, and stays the caller's to close.
    """

    def __init__(self, name: str, client: Any) -> None:
        self.name = CLAUDES.get(name, name)
        self._client = client

    def resolve(self, name: str) -> str:
        return CLAUDES.get(name, name) or self.name

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The reply; ModelError if there is none."""
        model = self.resolve(request.model)
        given = _parameters(request, model)
        used, begun = Usage(), False
        try:
            if on_text is None and request.max_tokens <= _LONG_REPLY:
                return _reply(self._client.messages.create(**given), model)
            with self._client.messages.stream(**given) as stream:
                for event in stream:
                    if event.type == "message_start":
                        used = _usage(getattr(event.message, "usage", None))
                    elif event.type == "text" and on_text is not None:
                        begun = True
                        on_text(event.text)
                return _reply(stream.get_final_message(), model)
        except anthropic.AnthropicError as error:
            failed = _failure(error, model, used)
            if isinstance(failed, ModelUnavailable):
                failed.broke_off = begun
            raise failed from error


def _parameters(request: Request, model: str) -> dict[str, Any]:
    given: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": [_message(message) for message in request.messages],
    }
    if request.system:
        given["system"] = request.system
    if request.tools:
        given["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}
            for tool in request.tools
        ]
    return given


def _message(message: Message) -> dict[str, Any]:
    match message.content:
        case (Text(text),):
            return {"role": message.role, "content": text}
        case blocks:
            return {"role": message.role, "content": [_block(block) for block in blocks]}


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolUse(id, name, given):
            return {"type": "tool_use", "id": id, "name": name, "input": dict(given)}
        case ToolResult(tool_use_id, content, is_error, files):
            words = [{"type": "text", "text": content}] if content else []
            told: Any = [*words, *map(_file, files)] if files else content
            said: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_use_id, "content": told}
            return {**said, "is_error": True} if is_error else said
        case Opaque(data):
            return dict(data)
        case _:
            return _file(block)


def _file(part: Content) -> dict[str, Any]:
    """Images and documents are what the Messages API takes."""
    match part:
        case File(data, media_type) if media_type.startswith("image/") or media_type == "application/pdf":
            source = {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
            return {"type": "document" if media_type == "application/pdf" else "image", "source": source}
        case File(data, "text/plain"):
            text = data.decode(errors="replace")
            return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}
        case FileUrl(url, "image" | "document" as kind):
            return {"type": kind, "source": {"type": "url", "url": url}}
        case _:
            raise ModelRejected(f"this model reads images, PDF and text, and no {described(part)}")


def _reply(message: Any, model: str) -> Reply:
    """A response as we have it; fakes and proxies may leave out everything but its content."""
    return Reply(
        content=tuple(_block_from(block) for block in message.content),
        stop_reason=_text(message, "stop_reason", StopReason.END_TURN),
        usage=_usage(getattr(message, "usage", None)),
        model=_text(message, "model", model),
    )


def _text(message: Any, name: str, otherwise: str) -> str:
    found = getattr(message, name, None)
    return found if isinstance(found, str) and found else otherwise


def _block_from(block: Any) -> Block:
    if block.type == "text":
        return Text(block.text)
    if block.type == "tool_use":
        return ToolUse(block.id, block.name, dict(block.input))
    return Opaque(block.model_dump(mode="json", exclude_none=True))


def _usage(usage: Any) -> Usage:
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    found = (
        getattr(usage, name, None) for name in names
    )  # the API leaves out, or makes null, what does not apply
    return Usage(*(tokens if isinstance(tokens, int) else 0 for tokens in found))


def _failure(error: anthropic.AnthropicError, model: str, used: Usage) -> ModelError:
    """What the client raised, after its own retries, in our words."""
    status = getattr(error, "status_code", None)
    if isinstance(error, anthropic.APIConnectionError):
        return ModelUnavailable(f"{model} cannot be reached: {error.__cause__ or error}", usage=used)
    if status is not None and status < 400:  # the answer began well, and an error came in the midst of it
        return ModelUnavailable(f"{model} broke off: {_said(error)}", usage=used)
    if status is not None and (status in (408, 409, 429) or status >= 500):
        return ModelUnavailable(f"{model} is not available ({status}): {_said(error)}", usage=used)
    return ModelRejected(f"{model} refused the request ({status}): {_said(error)}", usage=used)


def _said(error: anthropic.AnthropicError) -> str:
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    return str(inner["message"]) if isinstance(inner, dict) and "message" in inner else str(error)
