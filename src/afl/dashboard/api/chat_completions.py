"""Agents for programs that speak the API of OpenAI: `POST /v1/chat/completions`, `GET /v1/models` and one of them.

The model is the name of an agent. A request starts a turn with the last message; what was said before comes with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from afl.client.store_client import StoreClient
from afl.dashboard.api.chat_parts import ChatPart, part_of
from afl.dashboard.api.requests import CHAT, read_body, read_key
from afl.dashboard.streams import EventStream, user_of
from afl.dashboard.turn_streams import TurnStreams, sent, streams_of
from afl.kernel import codec
from afl.kernel.errors import NotFoundError
from afl.operations.problems import RequestError
from afl.operations.program.submission import id_of_key
from afl.operations.turn import turns
from afl.operations.turn.turn_chat import ASSISTANT, Said, chat, usage_of
from afl.turns.model import TurnRef
from afl.turns.turn_events import AgentEvent, EventKind

T = TypeVar("T")
_ROLES = ("system", "developer", "user", ASSISTANT)
_DONE = "data: [DONE]\n\n"
_NO_RETRY = {
    "x-should-retry": "false"
}  # which clients heed: the turn is over, and another one would be another turn


class Schema(msgspec.Struct):
    """A JSON schema that the answer must fit."""

    schema: dict[str, Any]
    name: str = "result"


class ResponseFormat(msgspec.Struct):
    """`text`, or `json_schema` with a schema."""

    type: str
    json_schema: Schema | None = None


class ChatMessage(msgspec.Struct):
    """A message as it is sent."""

    role: str
    content: str | list[ChatPart] | None = None


class StreamOptions(msgspec.Struct):
    """What comes at the end of a stream."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct):
    """What is read of a request. Settings of the model are those of the agent."""

    model: str
    messages: list[ChatMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    n: int | None = None

    @property
    def has_usage(self) -> bool:
        """Whether a stream ends with what was used."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def schema(self) -> dict[str, Any] | None:
        """What the answer must fit."""
        asked = self.response_format.json_schema if self.response_format is not None else None
        return None if asked is None else {"title": asked.name, **asked.schema}


async def complete_chat(request: Request) -> Response:
    """`POST /v1/chat/completions`: the answer of an agent, at once or as it comes."""
    wanted = _read(await read_body(request))
    messages = [_said(each) for each in wanted.messages]
    streams, user, client = streams_of(request), user_of(request), _client(request)
    streams.limit.check(user)
    key = read_key(request)
    correlation = None if key is None else id_of_key(user, key)
    ask = partial(client.call, chat, wanted.model, messages, result=wanted.schema, correlation=correlation)
    turn = await run_sync(ask)
    answer = _Answer(turn, wanted, int(time.time()))
    events = (await streams.agents()).events(turn)
    if wanted.stream:
        return EventStream(request, _chunks(answer, streams, events), streams.limit)
    with streams.limit.taken(user):
        answer.end = await _unless_left(request, _last_of(events))
    return await _whole(answer, streams)


async def _last_of(events: AsyncGenerator[AgentEvent, None]) -> AgentEvent | None:
    last = None
    async with aclosing(events):
        async for event in events:
            last = event
    return last


async def _unless_left(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work returns; ClientDisconnect once the caller has hung up. The body has been read."""
    working, leaving = asyncio.create_task(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def list_models(request: Request) -> Response:
    """`GET /v1/models`: the agents."""
    return JSONResponse({"object": "list", "data": await _models(request)})


async def show_model(request: Request) -> Response:
    """`GET /v1/models/{model}`: one agent."""
    name = request.path_params["model"]
    found = [each for each in await _models(request) if each["id"] == name]
    if not found:
        raise NotFoundError(f"there is no agent {name[:80]!r} at work; {CHAT}models lists them")
    return JSONResponse(found[0])


async def _models(request: Request) -> list[dict[str, Any]]:
    found = await run_sync(partial(_client(request).call, turns.agents))
    return [
        {"id": each.agent, "object": "model", "created": each.since // 1000, "owned_by": "agentflow"}
        for each in found
        if each.active
    ]


def chat_routes() -> list[BaseRoute]:
    """What programs that speak the API of OpenAI ask for."""
    return [
        Route(f"{CHAT}chat/completions", complete_chat, methods=["POST"]),
        Route(f"{CHAT}models", list_models, methods=["GET"]),
        Route(f"{CHAT}models/{{model:path}}", show_model, methods=["GET"]),
    ]


@dataclass(slots=True)
class _Answer:
    """One answer, as far as it is known."""

    turn: TurnRef
    wanted: ChatRequest
    created: int
    end: AgentEvent | None = None
    spoke: int = 0  # the step whose text was sent last
    message: str = ""  # what was said last

    @property
    def content(self) -> str:
        """What the turn delivered; with a schema, as JSON."""
        assert self.end is not None
        return codec.encode(self.end.data) if self.wanted.schema is not None else self.end.text

    def about(self, kind: str) -> dict[str, Any]:
        name = self.turn.agent_turn_id
        return {
            "id": f"chatcmpl-{name}",
            "object": kind,
            "created": self.created,
            "model": self.turn.agent_id,
        }

    def delta(self, delta: Mapping[str, str], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**self.about("chat.completion.chunk"), "choices": [choice]})

    def piece(self, event: AgentEvent) -> str:
        """What an event adds to a stream: text, with an empty line between those of two steps; at the end the rest."""
        if event.kind == EventKind.MESSAGE:
            self.message = event.text
        elif event.kind == EventKind.TEXT and self.wanted.schema is None:
            between = "\n\n" if self.spoke not in (0, event.step) else ""
            self.spoke = event.step
            return self.delta({"content": between + event.text})
        elif event.ends_turn:
            self.end = event
            return self._last(event)
        return ""

    def _last(self, event: AgentEvent) -> str:
        if event.kind == EventKind.FAILED:
            return _data({"error": _error(event)})
        told = self.wanted.schema is None and self.message == event.text
        between = "\n\n" if self.spoke else ""
        text = "" if told else self.delta({"content": between + self.content})
        return text + self.delta({}, _finish_reason(event))


async def _chunks(
    answer: _Answer, streams: TurnStreams, events: AsyncGenerator[AgentEvent, None]
) -> AsyncGenerator[str, None]:
    yield answer.delta({"role": ASSISTANT, "content": ""})
    async with aclosing(sent(events, answer.piece)) as texts:
        async for text in texts:
            yield text
    if answer.wanted.has_usage:
        usage = await _usage(answer, streams)
        yield _data({**answer.about("chat.completion.chunk"), "choices": [], "usage": usage})
    yield _DONE


async def _whole(answer: _Answer, streams: TurnStreams) -> Response:
    end = answer.end
    assert end is not None  # the events of a turn end with its end
    if end.kind == EventKind.FAILED:
        return JSONResponse({"error": _error(end)}, 500, _NO_RETRY)
    message = {"role": ASSISTANT, "content": answer.content, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(end)}
    usage = await _usage(answer, streams)
    return JSONResponse({**answer.about("chat.completion"), "choices": [choice], "usage": usage})


async def _usage(answer: _Answer, streams: TurnStreams) -> dict[str, int]:
    database = (await streams.agents()).engine.database
    used = await database.run("read", lambda tx: usage_of(tx, answer.turn))
    total = used.input + used.output
    return {"prompt_tokens": used.input, "completion_tokens": used.output, "total_tokens": total}


def _finish_reason(end: AgentEvent) -> str:
    return "length" if end.cut_off else "stop"


def _error(event: AgentEvent) -> dict[str, Any]:
    return {
        "message": f"turn {event.turn} {event.status}: {event.text}",
        "type": "server_error",
        "param": None,
        "code": event.error_code or event.status,
    }


def _data(value: Mapping[str, Any]) -> str:
    return f"data: {codec.encode(value)}\n\n"


def _read(body: bytes) -> ChatRequest:
    try:
        wanted = msgspec.json.decode(body, type=ChatRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is not a chat completion: {error}") from error
    if wanted.tools or wanted.functions:
        raise RequestError("tools: an agent has its own; define them with the agent")
    asked = wanted.response_format
    if asked is not None and asked.type != "text" and (asked.type != "json_schema" or not asked.json_schema):
        raise RequestError(
            f"response_format: the type is {asked.type[:80]!r}; text and json_schema with a json_schema are served"
        )
    if wanted.n not in (None, 1):
        raise RequestError(f"n is {wanted.n}; an agent gives one answer")
    return wanted


def _said(message: ChatMessage) -> Said:
    if message.role not in _ROLES:
        raise RequestError(f"messages: the role {message.role[:80]!r} is none of {', '.join(_ROLES)}")
    if isinstance(message.content, list):
        parts = [part_of(part) for part in message.content]
        text = "".join(part for part in parts if isinstance(part, str))
        has_files = any(not isinstance(part, str) for part in parts)
        if has_files and message.role != "user":
            raise RequestError(f"messages: the role {message.role} has text only")
        return Said(message.role, text, parts if has_files else ())
    return Said(message.role, message.content or "")


def _client(request: Request) -> StoreClient:
    client: StoreClient = request.state.client
    return client
