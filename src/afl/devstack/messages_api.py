"""A server of this machine that speaks the Messages API: to try models without a key, and to test against.

    with MessagesApi([says("Hello"), Fault(429, retry_after=0.01), uses("Answer", {"x": 1})]) as api:
        anthropic.Anthropic(base_url=api.url, api_key="local")

What it answers is a list, one per request, or a function of the request. Requests that the real one would refuse (no
key, no messages, a tool without its result) are refused here as well.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from afl.devstack.messages_wire import Json, events, message, objection

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
