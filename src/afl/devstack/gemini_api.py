"""A local server that implements Google's Gemini API: generateContent, at once and streamed."""

from __future__ import annotations

import json
from typing import Any

from afl.devstack.model_server import ApiFormat, Fault, Json, ModelServer, Said, ids, pieces

_FINISH = {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class GeminiFormat:
    """The format of generateContent. A refusal without words is a prompt that was blocked."""

    hints_in_body = True  # when to ask again: there is no header for it

    def objection(self, body: Any) -> str:
        if not isinstance(body, dict) or not body.get("contents"):
            return "contents are required"
        parts = [part for content in body["contents"] for part in content.get("parts") or ()]
        called = [part["functionCall"].get("id") for part in parts if "functionCall" in part]
        answered = [part["functionResponse"].get("id") for part in parts if "functionResponse" in part]
        return "" if sorted(called) == sorted(answered) else f"calls without result: {called} {answered}"

    def whole(self, request: Json, said: Said) -> Json:
        if said.stop_reason == "refusal" and not said.content:
            return {"promptFeedback": {"blockReason": "SAFETY"}, **_used(said)}
        parts = [_part(block) for block in said.content]
        return {"candidates": [_candidate(parts, _FINISH[said.stop_reason])], **_used(said)}

    def events(self, request: Json, said: Said) -> list[str]:
        if said.stop_reason == "refusal" and not said.content:
            return [_data(self.whole(request, said))]
        answer = f"resp-{next(ids):06}"
        chunks: list[Json] = []
        for block in said.content:
            texts = pieces(block["text"]) if block["type"] == "text" else []
            chunks += [{"candidates": [_candidate([{"text": text}])]} for text in texts]
            if block["type"] != "text":
                chunks.append({"candidates": [_candidate([_part(block)])]})
        end = {"candidates": [_candidate([{"text": ""}], _FINISH[said.stop_reason])], **_used(said)}
        return [_data({**chunk, "responseId": answer}) for chunk in (*chunks, end)]

    def error(self, fault: Fault) -> Json:
        told: Json = {"code": fault.status, "message": fault.message}
        told["status"] = _STATUSES.get(fault.status, "UNKNOWN")
        if fault.retry_after is not None:
            told["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{fault.retry_after:g}s"}]
        return {"error": told}

    def error_event(self, fault: Fault) -> str:
        return _data(self.error(fault))


class GeminiApi(ModelServer):
    """The server; its `url` is for GOOGLE_GEMINI_BASE_URL."""

    formats = {"generateContent": GeminiFormat()}  # noqa: RUF012

    def format_of(self, path: str) -> ApiFormat | None:
        """The model is a part of the path: `/v1beta/models/NAME:generateContent`."""
        method = path.rpartition(":")[2]
        return self.formats.get("generateContent" if method == "streamGenerateContent" else method)


def _candidate(parts: list[Json], finish: str | None = None) -> Json:
    found: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    return found if finish is None else {**found, "finishReason": finish}


def _part(block: Json) -> Json:
    if block["type"] == "tool_use":
        return {"functionCall": {"id": block["id"], "name": block["name"], "args": block["input"]}}
    if block["type"] == "thinking":
        return {"text": block["thinking"], "thought": True, "thoughtSignature": block["signature"]}
    return {"text": block["text"]}


def _used(said: Said) -> Json:
    sent, made = said.usage["input_tokens"], said.usage["output_tokens"]
    counts = {"promptTokenCount": sent, "candidatesTokenCount": made, "totalTokenCount": sent + made}
    return {"usageMetadata": counts}


def _data(chunk: Json) -> str:
    return f"data: {json.dumps(chunk)}\n\n"
