"""A local server that implements the Messages API: to try models without a key, and to test against."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, pairwise
from typing import Any

Json = dict[str, Any]
_PIECE = 12  # characters of one event: small, so that a stream has several


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
        empty, pieces = {**block, "text": ""}, _pieces(block["text"])
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    elif block["type"] == "tool_use":
        empty, pieces = {**block, "input": {}}, _pieces(json.dumps(block["input"]))
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    else:
        empty, deltas = block, []
    return [
        {"type": "content_block_start", "index": index, "content_block": empty},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def objection(body: Any) -> str:
    """Why the real API would refuse a request; empty if it would not."""
    if not isinstance(body, dict):
        return "the request is no object"
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


@dataclass(frozen=True)
class Said:
    """An answer: content blocks of the API, why it ended, and the tokens it took."""

    content: list[Json]
    stop_reason: str = "end_turn"
    usage: Json = field(default_factory=lambda: {"input_tokens": 10, "output_tokens": 10})


@dataclass(frozen=True)
class Fault:
    """A refusal. `broken_off`: the answer begins well, and the error comes in the middle of the stream."""

    status: int
    message: str = "try again later"
    retry_after: float | None = None
    broken_off: str = ""


Spoken = Said | Fault | str
_ids = count(1)


def says(text: str, **options: Any) -> Said:
    """An answer in words."""
    return Said([{"type": "text", "text": text}], **options)


def uses(tool: str, input: Json, *, text: str = "", **options: Any) -> Said:
    """An answer that calls a tool, perhaps with words before it."""
    words = [{"type": "text", "text": text}] if text else []
    call = {"type": "tool_use", "id": f"toolu_{next(_ids):06}", "name": tool, "input": input}
    return Said([*words, call], **{"stop_reason": "tool_use", **options})


class MessagesApi:
    """The server; `with` starts and ends it. `requests` are the bodies it was sent, `faults` how many it refused."""

    def __init__(self, answers: Iterable[Spoken] | Callable[[Json], Spoken], *, port: int = 0) -> None:
        self.requests: list[Json] = []
        self.faults = 0
        self._guard = threading.Lock()
        self._answer = answers if callable(answers) else _in_order(answers)
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Its address, for `base_url`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> MessagesApi:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, body: Json) -> Said | Fault:
        """What it says to a request."""
        problem = objection(body)
        with self._guard:
            self.requests.append(body)
            spoken = Fault(400, problem) if problem else self._answer(body)
            self.faults += isinstance(spoken, Fault)
        return says(spoken) if isinstance(spoken, str) else spoken


def _in_order(answers: Iterable[Spoken]) -> Callable[[Json], Spoken]:
    left = iter(answers)
    return lambda body: next(left, Fault(400, "the script of this server has no more answers"))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], api: MessagesApi) -> None:
        self.api = api
        super().__init__(address, _Conversation)


class _Conversation(BaseHTTPRequestHandler):
    """One connection."""

    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.partition("?")[0] != "/v1/messages":
            return self._refuse(Fault(404, f"there is no {self.path} here"))
        if not (self.headers.get("x-api-key") or self.headers.get("authorization")):
            return self._refuse(Fault(401, "there is no key"))
        try:
            request = json.loads(body)
        except ValueError as error:
            return self._refuse(Fault(400, f"the body is no JSON: {error}"))
        self._say(request, self.server.api.answer(request))

    def _say(self, request: Json, spoken: Said | Fault) -> None:
        if isinstance(spoken, Fault) and not spoken.broken_off:
            return self._refuse(spoken)
        said = says(spoken.broken_off) if isinstance(spoken, Fault) else spoken
        whole = message(f"msg_{next(_ids):06}", request["model"], said.content, said.stop_reason, said.usage)
        if not request.get("stream"):
            return self._send(200, "application/json", json.dumps(whole).encode())
        stream = events(whole)
        if isinstance(spoken, Fault):
            stream = [*stream[:3], ("error", _error(spoken))]
        text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in stream)
        self._send(200, "text/event-stream", text.encode())

    def _refuse(self, fault: Fault) -> None:
        headers = {} if fault.retry_after is None else {"retry-after": f"{fault.retry_after:g}"}
        self._send(fault.status, "application/json", json.dumps(_error(fault)).encode(), headers)

    def _send(self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "content-type": kind,
            "content-length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was asked is in `requests`."""


def _error(fault: Fault) -> Json:
    kind = _ERROR_TYPES.get(fault.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": fault.message}}
