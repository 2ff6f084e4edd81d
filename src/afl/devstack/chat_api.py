"""A local server that implements OpenAI's APIs: chat completions, which Ollama and vLLM speak too, and responses."""

from __future__ import annotations

import json
from typing import Any

from afl.devstack.model_server import Fault, Json, ModelServer, Said, ids, pieces

_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "stop"}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class _OpenAI:
    """What both have in common."""

    def error(self, fault: Fault) -> Json:
        return {"error": {"message": fault.message, "type": "error", "code": _CODES.get(fault.status)}}


class ChatFormat(_OpenAI):
    """The format of chat completions."""

    def objection(self, body: Any) -> str:
        if not isinstance(body, dict) or not body.get("model") or not body.get("messages"):
            return "model and messages are required"
        return _unanswered(
            [call["id"] for each in body["messages"] for call in each.get("tool_calls") or []],
            [each["tool_call_id"] for each in body["messages"] if each["role"] == "tool"],
        )

    def whole(self, request: Json, said: Said) -> Json:
        calls = [_call(block) for block in said.content if block["type"] == "tool_use"]
        told: Json = {"role": "assistant", "content": _text(said), "refusal": _text(said, "refusal") or None}
        if calls:
            told["tool_calls"] = calls
        choice = {"index": 0, "message": told, "finish_reason": _FINISH[said.stop_reason]}
        return {**_head(request, "chat.completion"), "choices": [choice], "usage": _usage(said)}

    def events(self, request: Json, said: Said) -> list[str]:
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in pieces(_text(said))]
        deltas += [{"refusal": piece} for piece in pieces(_text(said, "refusal"))]
        uses = [block for block in said.content if block["type"] == "tool_use"]
        for index, block in enumerate(uses):
            deltas += [{"tool_calls": [{"index": index, **part}]} for part in _call_pieces(block)]
        head = _head(request, "chat.completion.chunk")
        chunks = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        end = {"index": 0, "delta": {}, "finish_reason": _FINISH[said.stop_reason]}
        chunks += [{**head, "choices": [end]}, {**head, "choices": [], "usage": _usage(said)}]
        return [*(_data(chunk) for chunk in chunks), "data: [DONE]\n\n"]

    def error_event(self, fault: Fault) -> str:
        return _data(self.error(fault))


class ResponsesFormat(_OpenAI):
    """The format of responses."""

    def objection(self, body: Any) -> str:
        if not isinstance(body, dict) or not body.get("model") or not body.get("input"):
            return "model and input are required"
        items = body["input"] if isinstance(body["input"], list) else []
        return _unanswered(
            [each["call_id"] for each in items if each.get("type") == "function_call"],
            [each["call_id"] for each in items if each.get("type") == "function_call_output"],
        )

    def whole(self, request: Json, said: Said) -> Json:
        used, cut_off = said.usage, said.stop_reason == "max_tokens"
        return {
            "id": f"resp_{next(ids):06}",
            "object": "response",
            "created_at": 1,
            "model": request["model"],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "status": "incomplete" if cut_off else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut_off else None,
            "output": [_item(block) for block in said.content],
            "usage": {
                "input_tokens": used["input_tokens"],
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": used["output_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": used["input_tokens"] + used["output_tokens"],
            },
        }

    def events(self, request: Json, said: Said) -> list[str]:
        whole = self.whole(request, said)
        begun = {**whole, "output": [], "status": "in_progress", "usage": None}
        stream: list[Json] = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(whole["output"]):
            stream += _item_events(index, item)
        stream.append({"type": f"response.{whole['status']}", "response": whole})
        return [_data({**event, "sequence_number": number}) for number, event in enumerate(stream)]

    def error_event(self, fault: Fault) -> str:
        return _data(
            {"type": "error", "sequence_number": 9, "code": "server_error", "message": fault.message}
        )


class ChatApi(ModelServer):
    """A server with both APIs; its `url` with `/v1` behind it is for `base_url`, or the address of a model."""

    formats = {"/v1/chat/completions": ChatFormat(), "/v1/responses": ResponsesFormat()}  # noqa: RUF012


def _unanswered(called: list[str], answered: list[str]) -> str:
    """Every call has its result, and nothing else has one."""
    return (
        "" if sorted(called) == sorted(answered) else f"calls without result: {set(called) ^ set(answered)}"
    )


def _head(request: Json, kind: str) -> Json:
    return {"id": f"chatcmpl_{next(ids):06}", "object": kind, "created": 1, "model": request["model"]}


def _text(said: Said, kind: str = "text") -> str:
    return "".join(block["text"] for block in said.content if block["type"] == kind)


def _usage(said: Said) -> Json:
    sent, made = said.usage["input_tokens"], said.usage["output_tokens"]
    return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}


def _call(block: Json) -> Json:
    called = {"name": block["name"], "arguments": _arguments(block)}
    return {"id": block["id"], "type": "function", "function": called}


def _arguments(block: Json) -> str:
    """As text; a script may have text that is no JSON."""
    return block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])


def _call_pieces(block: Json) -> list[Json]:
    begun = {**_call(block), "function": {"name": block["name"], "arguments": ""}}
    return [begun, *({"function": {"arguments": piece}} for piece in pieces(_arguments(block)))]


def _item(block: Json) -> Json:
    if block["type"] == "tool_use":
        called = {"call_id": block["id"], "name": block["name"], "arguments": _arguments(block)}
        return {"type": "function_call", "id": f"fc_{next(ids):06}", "status": "completed", **called}
    if block["type"] == "thinking":
        summary = [{"type": "summary_text", "text": block["thinking"]}]
        signed = {"encrypted_content": block["signature"]}
        return {"type": "reasoning", "id": f"rs_{next(ids):06}", "summary": summary, **signed}
    told = {"type": "refusal", "refusal": block["text"]}
    if block["type"] == "text":
        told = {"type": "output_text", "text": block["text"], "annotations": []}
    base = {"type": "message", "id": f"msg_{next(ids):06}", "role": "assistant", "status": "completed"}
    return {**base, "content": [told]}


def _item_events(index: int, item: Json) -> list[Json]:
    where = {"item_id": item["id"], "output_index": index}
    deltas: list[Json] = []
    begun = item
    if item["type"] == "function_call":
        begun = {**item, "arguments": ""}
        kind = "response.function_call_arguments"
        deltas = [{"type": f"{kind}.delta", **where, "delta": piece} for piece in pieces(item["arguments"])]
        deltas += [{"type": f"{kind}.done", **where, "arguments": item["arguments"], "name": item["name"]}]
    elif item["type"] == "message":
        begun = {**item, "content": []}
        part = item["content"][0]
        name = "output_text" if part["type"] == "output_text" else "refusal"
        text = part["text"] if name == "output_text" else part["refusal"]
        where = {**where, "content_index": 0}
        deltas = [
            {"type": f"response.{name}.delta", **where, "delta": piece, "logprobs": []}
            for piece in pieces(text)
        ]
        deltas += [{"type": f"response.{name}.done", **where, "text": text, "refusal": text, "logprobs": []}]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": begun},
        *deltas,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _data(event: Json) -> str:
    named = f"event: {event['type']}\n" if "type" in event else ""
    return f"{named}data: {json.dumps(event)}\n\n"
