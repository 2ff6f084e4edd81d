"""The figures of streams: how much later the first word of a model comes, and a thousand readers of one web process."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from openai import AsyncOpenAI

from afl.devstack.chat_api import ChatApi
from afl.models import Reply, Request, Text
from afl.models.model import OnText
from afl.turns import open_agents
from bench.dashboard import dashboard
from bench.place import Place
from bench.report import Report

FIRST_WORD_SECONDS = 0.3  # of the stand-in model; that of real ones is rarely less
ASKED = 30
TURNS, READERS = 20, 50  # a thousand streams
PIECES = ("It ", "is ", "five.")


def measure(report: Report, place: Place) -> None:
    """Every figure of streams."""
    for name, url in (("SQLite", place.sqlite()), ("PostgreSQL", place.server("postgres"))):
        first_word(report, name, url)
        many_readers(report, name, url)


def first_word(report: Report, name: str, url: str) -> None:
    """An unmodified client of OpenAI asks the stand-in model itself, and a durable agent with that model."""

    def answer(request: dict[str, Any]) -> str:
        time.sleep(FIRST_WORD_SECONDS)
        return "It is five."

    with ChatApi(answer) as model, dashboard(url) as address, _worker(url, f"{model.url}/v1#stand-in"):
        own, ours = asyncio.run(_first_words(f"{model.url}/v1", f"{address}/v1"))
    added = (ours - own) * 1e3
    detail = f"{ours * 1e3:.0f} ms, the model's own {own * 1e3:.0f} ms"
    allowed = max(10.0, own * 1e2)
    report.add(f"{name}: added to the time to the first word, p50, ms", added, "at_most", allowed, detail)


@contextmanager
def _worker(store: str, model: str) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.turn_process", store, model]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout and process.stdout.readline().strip() == "ready"
        yield
        process.stdin.close()


async def _first_words(model: str, agent: str) -> tuple[float, float]:
    own, ours = list[float](), list[float]()
    async with (
        AsyncOpenAI(base_url=model, api_key="local") as direct,
        AsyncOpenAI(base_url=agent, api_key="local") as durable,
    ):
        for _ in range(ASKED):  # in turn: a machine is not as fast all the time
            own.append(await _first_word(direct, "stand-in"))
            ours.append(await _first_word(durable, "clerk"))
    return statistics.median(own[2:]), statistics.median(ours[2:])


async def _first_word(client: AsyncOpenAI, model: str) -> float:
    begun, first = time.perf_counter(), 0.0
    stream = await client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "2 and 3?"}], stream=True
    )
    async for chunk in stream:
        if not first and chunk.choices and chunk.choices[0].delta.content:
            first = time.perf_counter() - begun
    assert first
    return first


class _Held:
    """A model that answers when it is allowed to."""

    name = "held"

    def __init__(self) -> None:
        self.let = threading.Event()

    def resolve(self, name: str) -> str:
        return name or self.name

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        self.let.wait()
        for piece in PIECES:
            if on_text is not None:
                on_text(piece)
        return Reply((Text("".join(PIECES)),))


def many_readers(report: Report, name: str, url: str) -> None:
    """A thousand streams of one web process, of turns that are all answered at once."""
    with dashboard(url) as address:
        last, whole = asyncio.run(_read_all(url, address))
    title = f"{name}: of {TURNS * READERS:,} streams, those that got everything"
    detail = f"the last {last * 1e3:.0f} ms after the models were allowed to answer"
    report.add(title, whole, "at_least", TURNS * READERS, detail)


async def _read_all(store: str, address: str) -> tuple[float, int]:
    model = _Held()
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    async with (
        open_agents(store, model=model) as agents,
        httpx2.AsyncClient(base_url=address, limits=limits, timeout=120) as http,
    ):
        turns = []
        for number in range(TURNS):
            await agents.define(f"reader{number}", "You answer.")
            turns.append((await agents.send(f"reader{number}", "2 and 3?")).agent_turn_id)
        opened = asyncio.Semaphore(0)
        readers = [asyncio.create_task(_read(http, turn, opened)) for turn in turns for _ in range(READERS)]
        for _ in readers:
            await opened.acquire()
        begun = time.perf_counter()
        model.let.set()
        whole = await asyncio.gather(*readers)
        return time.perf_counter() - begun, sum(whole)


async def _read(http: httpx2.AsyncClient, turn: str, opened: asyncio.Semaphore) -> bool:
    """Whether the words came in order, and the result."""
    words, kinds, is_open = "", list[str](), False
    async with http.stream(
        "GET", f"/api/v1/turns/{turn}/events", headers={"Accept": "text/event-stream"}
    ) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                kinds.append(event["kind"])
                words += event["text"] if event["kind"] == "text" else ""
            if not is_open and kinds:
                is_open = True
                opened.release()
    return "".join(PIECES).endswith(words) and kinds[-1] == "result" and kinds.count("message") == 1
