"""A local server that answers as a model's API does, from a script: to try models without a key, and for tests."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Literal, Protocol

Json = dict[str, Any]
PIECE = 12  # characters of one event: small, so that a stream has several
_KEYS = ("x-api-key", "authorization", "x-goog-api-key")  # headers, one for each provider
_BEFORE_THE_END = 3  # events of a stream that breaks off


@dataclass(frozen=True)
class Said:
    """An answer: content blocks of the Messages API, why it ended, and the tokens it took."""

    content: list[Json]
    stop_reason: str = "end_turn"
    usage: Json = field(default_factory=lambda: {"input_tokens": 10, "output_tokens": 10})


@dataclass(frozen=True)
class Fault:
    """A refusal. `broken_off`: the answer begins well; then comes an error, garbage, too early an end, or none."""

    status: int
    message: str = "try again later"
    retry_after: float | None = None
    broken_off: str = ""
    by: Literal["error", "garbage", "end", "cut"] = "error"


Spoken = Said | Fault | str
ids = count(1)


def says(text: str, **options: Any) -> Said:
    """An answer in words."""
    return Said([{"type": "text", "text": text}], **options)


def uses(tool: str, input: Json, *, text: str = "", **options: Any) -> Said:
    """An answer that calls a tool, perhaps with words before it."""
    words = [{"type": "text", "text": text}] if text else []
    call = {"type": "tool_use", "id": f"toolu_{next(ids):06}", "name": tool, "input": input}
    return Said([*words, call], **{"stop_reason": "tool_use", **options})


def pieces(text: str) -> list[str]:
    """A text as a stream has it."""
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


class ApiFormat(Protocol):
    """How an API says things."""

    def objection(self, body: Any) -> str:
        """Why the real API would refuse a request; empty if it would not."""

    def whole(self, request: Json, said: Said) -> Json:
        """An answer at once."""

    def events(self, request: Json, said: Said) -> list[str]:
        """The events that the answer is streamed as."""

    def error(self, fault: Fault) -> Json:
        """The body of a refusal."""

    def error_event(self, fault: Fault) -> str:
        """A refusal in the middle of a stream."""


class ModelServer:
    """The server; `with` starts and ends it. `requests` are the bodies it was sent, `faults` how many it refused."""

    formats: Mapping[str, ApiFormat] = {}

    def __init__(self, answers: Iterable[Spoken] | Callable[[Json], Spoken], *, port: int = 0) -> None:
        self._guard = threading.Lock()
        self.begin(answers)
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def begin(self, answers: Iterable[Spoken] | Callable[[Json], Spoken]) -> None:
        """Answer by another script, as if it had just been started."""
        with self._guard:
            self.requests: list[Json] = []
            self.faults = 0
            self._answer = answers if callable(answers) else _in_order(answers)

    def format_of(self, path: str) -> ApiFormat | None:
        """How it speaks at a path; None: there is nothing there."""
        return self.formats.get(path)

    @property
    def url(self) -> str:
        """Its address, for `base_url`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, body: Json, form: ApiFormat) -> Said | Fault:
        """What it says to a request."""
        problem = form.objection(body)
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

    def __init__(self, address: tuple[str, int], api: ModelServer) -> None:
        self.api = api
        super().__init__(address, _Conversation)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that left, which it may whenever it likes."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Conversation(BaseHTTPRequestHandler):
    """One connection."""

    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.partition("?")[0]
        form = self.server.api.format_of(path)
        if form is None:
            return self._refuse(
                next(iter(self.server.api.formats.values())), Fault(404, f"no {self.path} here")
            )
        if not any(self.headers.get(name) for name in _KEYS):
            return self._refuse(form, Fault(401, "there is no key"))
        try:
            request = json.loads(body)
        except ValueError as error:
            return self._refuse(form, Fault(400, f"the body is not JSON: {error}"))
        streams = bool(request.get("stream")) or path.endswith(":streamGenerateContent")
        self._say(form, request, self.server.api.answer(request, form), streams)

    def _say(self, form: ApiFormat, request: Json, spoken: Said | Fault, streams: bool) -> None:
        if isinstance(spoken, Fault) and spoken.broken_off:
            return self._break_off(form, request, spoken, streams)
        if isinstance(spoken, Fault):
            return self._refuse(form, spoken)
        if streams:
            text = "".join(form.events(request, spoken))
            return self._send(200, "text/event-stream", text.encode())
        self._send(200, "application/json", json.dumps(form.whole(request, spoken)).encode())

    def _break_off(self, form: ApiFormat, request: Json, fault: Fault, streams: bool) -> None:
        """The beginning of an answer, in chunks, and an end that is none."""
        begun = "".join(form.events(request, says(fault.broken_off))[:_BEFORE_THE_END])
        ends = {
            "error": form.error_event(fault),
            "garbage": "event: content_block_delta\ndata: {nonsense\n\n",
        }
        end = ends.get(fault.by, "")
        if not streams:
            begun, end = json.dumps(form.whole(request, says(fault.broken_off)))[:40], ""
        if fault.by != "cut":
            return self._send(200, "text/event-stream", (begun + end).encode())
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(f"{len(begun.encode()):x}\r\n".encode() + begun.encode() + b"\r\n")
        self.close_connection = True

    def _refuse(self, form: ApiFormat, fault: Fault) -> None:
        hinted = fault.retry_after is not None and not getattr(form, "hints_in_body", False)
        headers = {"retry-after": f"{fault.retry_after:g}"} if hinted else {}
        self._send(fault.status, "application/json", json.dumps(form.error(fault)).encode(), headers)

    def _send(self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        whole = {"content-type": kind, "content-length": str(len(body)), **(headers or {})}
        for name, value in whole.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was asked is in `requests`."""
