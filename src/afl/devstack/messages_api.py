"""A local server that implements the Messages API."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from afl.devstack.model_server import Fault, Json, ModelServer, Said, Spoken, ids, pieces, says, uses

__all__ = ["Fault", "MessagesApi", "Said", "Spoken", "says", "uses"]


def message(id: str, model: str, content: list[Json], stop_reason: str, usage: Json) -> Json:
    """A whole message."""
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def events(whole: Json) -> list[tuple[str, Json]]:
    """The events that a message is streamed as, by their names."""
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    stream: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(whole["content"]):
        stream.extend(_block_events(index, block))
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    used = {"output_tokens": whole["usage"]["output_tokens"]}
    stream += [{"type": "message_delta", "delta": ending, "usage": used}, {"type": "message_stop"}]
    return [(event["type"], event) for event in stream]


def _block_events(index: int, block: Json) -> list[Json]:
    if block["type"] == "text":
        empty = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    elif block["type"] == "tool_use":
        empty, given = {**block, "input": {}}, json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(given)]
    else:
        empty, deltas = block, []
    return [
        {"type": "content_block_start", "index": index, "content_block": empty},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def objection(body: Any) -> str:
    """Why the real API would refuse a request; empty if it would not."""
    if not isinstance(body, dict):
        return "the request is not an object"
    missing = [name for name in ("model", "max_tokens", "messages") if not body.get(name)]
    if missing:
        return f"{missing[0]}: field required"
    messages = body["messages"]
    if messages[0].get("role") != "user":
        return "messages: the first message must be the user's"
    for tool in body.get("tools", []):
        if tool.get("input_schema", {}).get("type") != "object":
            return f"tools: the input_schema of {tool.get('name')} must be of type object"
    return _unanswered(messages)


def _unanswered(messages: list[Json]) -> str:
    """Every tool that was used has its result in the very next message, and nothing else has one."""
    for position, (before, after) in enumerate(pairwise([{"content": []}, *messages])):
        used = {block["id"] for block in _blocks(before) if block["type"] == "tool_use"}
        given = {block["tool_use_id"] for block in _blocks(after) if block["type"] == "tool_result"}
        if used != given:
            ids = ", ".join(sorted(used ^ given))
            return f"messages.{position}: tool_use and tool_result do not match: {ids}"
    return ""


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class MessagesFormat:
    """The format of the Messages API."""

    def objection(self, body: Any) -> str:
        return objection(body)

    def whole(self, request: Json, said: Said) -> Json:
        return message(f"msg_{next(ids):06}", request["model"], said.content, said.stop_reason, said.usage)

    def events(self, request: Json, said: Said) -> list[str]:
        return [_event(name, data) for name, data in events(self.whole(request, said))]

    def error(self, fault: Fault) -> Json:
        kind = _ERROR_TYPES.get(fault.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": fault.message}}

    def error_event(self, fault: Fault) -> str:
        return _event("error", self.error(fault))


class MessagesApi(ModelServer):
    """A server with the Messages API; its `url` is for `base_url`."""

    formats = {"/v1/messages": MessagesFormat()}  # noqa: RUF012


def _event(name: str, data: Json) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
