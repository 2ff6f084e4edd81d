"""Turns over HTTP as they happen: server-sent events, and an unmodified client of OpenAI, against a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from support.dashboards import TOKENS, served, with_users
from support.deferred import openai
from support.speaking import SpeakingModel

from afl.dashboard import turn_streams
from afl.models.messages import Reply, StopReason, Text, ToolUse
from afl.models.scripted import calls, says
from afl.models.usage import Usage
from afl.operations.roles import Role
from afl.turns import Agents, open_agents

PIECES = ["It is ", "five", "."]


def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


def looks() -> Reply:
    """Words, and a call."""
    blocks = (Text("Let me see."), ToolUse("u1", "add", {"a": 2, "b": 3}))
    return Reply(blocks, StopReason.TOOL_USE, Usage(7, 2))


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The addresses of a server and of its store."""
    store: str = request.getfixturevalue(f"empty_{request.param}_url")
    with served(with_users(store)) as url:
        yield url, store


@asynccontextmanager
async def clerk(store: str, model: Any) -> AsyncIterator[Agents]:
    async with open_agents(store, model=model) as agents:
        await agents.define("clerk", "You add.", tools=[add])
        yield agents


def tell(story: Any) -> None:
    asyncio.run(asyncio.wait_for(story(), 60))


def openai_client(url: str, role: Role = Role.OPERATOR) -> Any:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=TOKENS[role])


def http_client(url: str, role: Role = Role.VIEWER) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {TOKENS[role]}"}, timeout=60)


async def server_sent(response: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            yield event
            event = {}


def test_server_sent_events_go_on_after_the_last_one(server: tuple[str, str]) -> None:
    url, store = server
    model = SpeakingModel([calls("add", {"a": 2, "b": 3}), PIECES])
    accept = {"Accept": "text/event-stream"}

    async def story() -> None:
        seen: list[dict[str, str]] = []
        async with clerk(store, model) as agents, http_client(url) as http:
            turn = (await agents.send("clerk", "2 and 3?")).agent_turn_id
            path = f"/api/v1/turns/{turn}/events"
            async with http.stream("GET", path, headers=accept) as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                async for event in server_sent(response):
                    seen.append(event)
                    if event["event"] == "text":
                        break  # the connection is lost while the model speaks
            model.go_on()
            again = {**accept, "Last-Event-ID": seen[-1]["id"]}
            async with http.stream("GET", path, headers=again) as response:
                async for event in server_sent(response):
                    seen.append(event)
                    if event["event"] == "text":
                        model.go_on()
            over = await http.get(path, params={"after": seen[-1]["id"]}, headers=accept)
            assert (over.status_code, over.text) == (204, "")  # upon which a browser stops to connect again
            last = await http.get(path, params={"after": seen[-2]["id"]}, headers=accept)
            assert (last.status_code, last.text.count("event: ")) == (200, 1)
            wrong = await http.get(path, headers={**accept, "Last-Event-ID": "x"})
            assert (wrong.status_code, "not the position" in wrong.text) == (422, True)
            page = (await http.get(path, params={"after": seen[-2]["id"]})).json()
            assert ([each["kind"] for each in page["events"]], page["over"]) == (["result"], True)
        data = [json.loads(event["data"]) for event in seen]
        assert [each["text"] for each in data if each["kind"] == "text"] == PIECES
        others = [each["kind"] for each in data if each["kind"] != "text"]
        assert others == ["step", "tool-call", "tool-result", "step", "message", "result"]

    tell(story)


def test_an_unmodified_client_of_openai_gets_an_answer(server: tuple[str, str]) -> None:
    url, store = server
    model = SpeakingModel([looks(), says("It is five.", usage=Usage(10, 3))])

    async def story() -> None:
        async with clerk(store, model), openai_client(url) as client:
            assert [each.id async for each in await client.models.list()] == ["clerk"]
            assert (await client.models.retrieve("clerk")).id == "clerk"
            with pytest.raises(openai.NotFoundError, match="no agent 'nobody'"):
                await client.models.retrieve("nobody")
            answer = await client.chat.completions.create(
                model="clerk",
                messages=[
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "1 and 1?"},
                    {"role": "assistant", "content": "Two."},
                    {"role": "user", "content": [{"type": "text", "text": "2 and 3?"}]},
                ],
            )
        assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("It is five.", "stop")
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (17, 5)
        told = [(said.role, [str(block) for block in said.content]) for said in model.requests[0].messages]
        assert [role for role, _ in told] == ["user", "assistant", "user"]
        assert "Be brief." in str(told[0]) and "Two." in str(told[1]) and "2 and 3?" in str(told[2])

    tell(story)


def test_an_unmodified_client_of_openai_reads_a_stream(server: tuple[str, str]) -> None:
    url, store = server
    model = SpeakingModel([looks(), PIECES])

    async def story() -> None:
        chunks: list[Any] = []
        async with clerk(store, model), openai_client(url) as client:
            stream = await client.chat.completions.create(
                model="clerk",
                messages=[{"role": "user", "content": "2 and 3?"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            async for chunk in stream:
                chunks.append(chunk)
                if chunk.choices and chunk.choices[0].delta.content in ("\n\nIt is ", *PIECES[1:]):
                    model.go_on()
        texts = [each.choices[0].delta.content or "" for each in chunks if each.choices]
        assert "".join(texts) == "Let me see.\n\nIt is five."
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert chunks[-1].usage is not None

    tell(story)


def test_a_reply_that_was_cut_off_says_so(empty_sqlite_url: str) -> None:
    cut_off = Reply((Text("It is"),), StopReason.MAX_TOKENS)
    question: Any = {"model": "clerk", "messages": [{"role": "user", "content": "2 and 3?"}]}

    async def story(url: str) -> None:
        async with clerk(empty_sqlite_url, SpeakingModel([cut_off, cut_off])), openai_client(url) as client:
            (choice,) = (await client.chat.completions.create(**question)).choices
            assert (choice.message.content, choice.finish_reason) == ("It is", "length")
            stream = await client.chat.completions.create(**question, stream=True)
            assert [each.choices[0].finish_reason async for each in stream][-1] == "length"

    with server_of(empty_sqlite_url) as url:
        tell(lambda: story(url))


def test_the_same_key_again_is_the_same_turn(empty_sqlite_url: str) -> None:
    """Users choose keys without knowing of each other."""
    model = SpeakingModel([says("one"), says("two"), says("three")])
    asked: Any = {
        "model": "clerk",
        "messages": [{"role": "user", "content": "1?"}, {"role": "user", "content": "2?"}],
    }

    async def story(url: str) -> list[str]:
        async with clerk(empty_sqlite_url, model), openai_client(url) as client:
            create = client.chat.completions.create
            keys = ({"Idempotency-Key": key} for key in ("k1", "k1", "k2"))
            answers = [await create(**asked, extra_headers=headers) for headers in keys]
            with pytest.raises(openai.APIStatusError, match="printable"):
                await create(**asked, extra_headers={"Idempotency-Key": "k" * 201})
            async with openai_client(url, Role.ADMIN) as other:
                headers = {"Idempotency-Key": "k1"}
                answers.append(await other.chat.completions.create(**asked, extra_headers=headers))
        return [str(answer.choices[0].message.content) for answer in answers]

    with server_of(empty_sqlite_url) as url:
        assert asyncio.run(asyncio.wait_for(story(url), 60)) == ["one", "one", "two", "three"]


def test_a_schema_is_what_the_turn_must_deliver(empty_sqlite_url: str) -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    given = [calls("submit_result", {"result": {"sum": 5}}) for _ in range(2)]

    async def story(url: str) -> None:
        wanted: Any = {"type": "json_schema", "json_schema": {"name": "Sum", "schema": schema}}
        question: Any = {"model": "clerk", "messages": [{"role": "user", "content": "2 and 3?"}]}
        async with clerk(empty_sqlite_url, SpeakingModel(given)), openai_client(url) as client:
            answer = await client.chat.completions.create(**question, response_format=wanted)
            assert json.loads(answer.choices[0].message.content) == {"sum": 5}
            stream = await client.chat.completions.create(**question, response_format=wanted, stream=True)
            texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
            assert json.loads("".join(texts)) == {"sum": 5}

    with server_of(empty_sqlite_url) as url:
        tell(lambda: story(url))


@contextmanager
def server_of(store: str) -> Iterator[str]:
    with served(with_users(store)) as url:
        yield url


def test_refusals_and_failures_as_the_client_knows_them(empty_sqlite_url: str) -> None:
    question: Any = {"model": "clerk", "messages": [{"role": "user", "content": "2 and 3?"}]}

    async def story(url: str) -> None:
        model = SpeakingModel([])  # it has no answer: the turn fails
        async with clerk(empty_sqlite_url, model), openai_client(url) as client:
            with pytest.raises(openai.APIStatusError) as failed:
                await client.chat.completions.create(**question)
            assert (failed.value.status_code, len(model.requests)) == (500, 1)  # it was not asked again
            with pytest.raises(openai.APIError, match="failed"):
                stream = await client.chat.completions.create(**question, stream=True)
                [chunk async for chunk in stream]
            with pytest.raises(openai.NotFoundError, match="no agent 'nobody'"):
                await client.chat.completions.create(**{**question, "model": "nobody"})
            for wrong in (
                {"n": 2},
                {"messages": []},
                {"messages": [{"role": "system", "content": "Be brief."}]},
                {"messages": [{"role": "user", "content": " "}]},
                {"messages": [{"role": "user", "content": []}]},
                {"messages": [{"role": "assistant", "content": "so"}]},
                {"messages": [{"role": "tool", "content": "5", "tool_call_id": "x"}]},
                {
                    "messages": [
                        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
                    ]
                },
                {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
                {"functions": [{"name": "f", "parameters": {}}]},
                {"response_format": {"type": "json_object"}},
                {"response_format": {"type": "json_schema"}},
                {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nope"}}}},
            ):
                with pytest.raises(openai.APIStatusError) as refused:
                    await client.chat.completions.create(**{**question, **wrong})
                assert refused.value.status_code == 422
            async with http_client(url, Role.OPERATOR) as plain:
                sent = await plain.post(
                    "/v1/chat/completions",
                    content=json.dumps(question),
                    headers={"Content-Type": "text/plain"},
                )
                assert sent.status_code == 422 and "the body is text/plain" in sent.text
            assert len(model.requests) == 2
        async with openai_client(url, Role.VIEWER) as viewer:
            with pytest.raises(openai.PermissionDeniedError):
                await viewer.chat.completions.create(**question)
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="wrong") as stranger:
            with pytest.raises(openai.AuthenticationError):
                await stranger.chat.completions.create(**question)

    with server_of(empty_sqlite_url) as url:
        tell(lambda: story(url))


def test_whoever_leaves_before_the_answer_waits_no_longer(
    empty_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or those who lost patience with a turn that waits for a person would take the places of all others."""
    monkeypatch.setattr(turn_streams, "_MOST", 1)
    asked = {"model": "clerk", "messages": [{"role": "user", "content": "2 and 3?"}]}
    accept = {"Accept": "text/event-stream"}

    async def story(url: str) -> None:
        model = SpeakingModel([["1 "], PIECES])
        async with clerk(empty_sqlite_url, model) as agents, http_client(url, Role.OPERATOR) as http:
            turn = (await agents.send("clerk", "1 and 1?")).agent_turn_id  # nobody lets the model go on
            path = f"/api/v1/turns/{turn}/events"
            asking = asyncio.create_task(http.post("/v1/chat/completions", json=asked))
            while len((await http.get("/api/v1/turns")).json()) < 2:
                assert not asking.done()
            assert (await until(http, path, 429)).startswith('{"error":{"code":"http-429"')
            asking.cancel()
            assert (await until(http, path, 200)).startswith("id: ")
            for _ in range(1 + len(PIECES)):
                model.go_on()

    async def until(http: httpx2.AsyncClient, path: str, status: int) -> str:
        """The first part of the first answer with this status."""
        while True:
            async with http.stream("GET", path, headers=accept) as response:
                if response.status_code == status:
                    return await anext(response.aiter_text())

    with served(with_users(empty_sqlite_url)) as url:
        tell(lambda: story(url))
