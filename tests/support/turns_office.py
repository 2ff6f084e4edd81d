"""A place where agents work: a store and a bus, as many workers as a test wants, models that do as they are told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from afl.kernel.database import Database, Transaction, connect
from afl.kernel.ids import sortable_id
from afl.models import Model, Reply, Request, ScriptedModel, Text, ToolUse, Usage
from afl.models.messages import StopReason, ToolResult
from afl.models.scripted import Scripted
from afl.turns.agents import Agents
from afl.turns.bus import open_bus, outbox
from afl.turns.cardbox.boxes import read_box
from afl.turns.cardbox.cards import Card
from afl.turns.engine import L0Engine
from afl.turns.message import Message
from afl.turns.model import Head, Limits, TurnRef
from afl.turns.protocol.subjects import PREFIX
from afl.turns.resources import get_agent, put_agent, put_profile
from afl.turns.store.heads import read_head
from afl.turns.tools.local import Toolbox
from afl.turns.worker.worker import Worker
from support.turns_house import query

T = TypeVar("T")
SECONDS = 60.0


@dataclass(frozen=True)
class Place:
    """Where: the URL of a store, and of a bus."""

    store: str
    bus: str | None


class Office:
    """One project of a test."""

    def __init__(self, database: Database, place: Place, limits: Limits) -> None:
        self.database = database
        self.place = place
        self.project = f"p{sortable_id()}"
        self.engine = L0Engine(database, open_bus(database, place.bus), limits)
        self.agents = Agents(self.engine, self.project, Toolbox())
        self.workers: list[Worker] = []
        self.received: list[Message] = []

    async def hire(self, model: Any, **options: Any) -> Worker:
        """A worker with a model; it has the tools of the office."""
        chosen = model if isinstance(model, Model) else ScriptedModel(model)
        usual: dict[str, Any] = {"tools": self.agents.toolbox, "watch_seconds": 0.0, "poll_seconds": 0.2}
        worker = Worker(self.engine, chosen, **usual | options)
        await worker.start()
        self.workers.append(worker)
        return worker

    async def overhear(self) -> None:
        """Keep everything that is told of this project."""

        async def receive(message: Message) -> None:
            self.received.append(message)

        await self.engine.bus.subscribe([f"{PREFIX}.{self.project}.>"], receive)

    def told(self, kind: str) -> list[dict[str, Any]]:
        """The payloads of `state`, `step`, `task` or `chunk` so far."""
        return [dict(each.payload) for each in self.received if each.subject.endswith(f".{kind}")]

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self.database.read(work)

    def head(self, agent: str) -> Head:
        head = self.read(lambda tx: read_head(tx, self.project, agent))
        assert head is not None
        return head

    def cards(self, box: str) -> list[Card]:
        return self.read(lambda tx: [card for _, card in read_box(tx, self.project, box)])

    def output(self, turn: TurnRef) -> list[Card]:
        """What a turn that is over wrote."""
        end = self.read(lambda tx: outbox.task_of_turn(tx, self.project, turn.agent_turn_id))
        assert end is not None
        return self.cards(end.message.payload["output_box_id"])

    def count(self, table: str, where: str = "true") -> int:
        name = table if self.database.dialect == "postgres" else table.replace(".", "_")
        condition = f"project_id = '{self.project}' and {where}"
        row = self.read(lambda tx: tx.one(query(f"select count(*) as n from {name} where {condition}")))
        assert row is not None
        return int(row["n"])


@asynccontextmanager
async def office(place: Place, limits: Limits | None = None) -> AsyncIterator[Office]:
    with connect(place.store) as database:
        opened = Office(database, place, limits or Limits())
        await opened.engine.start()
        await opened.agents.listen()
        try:
            yield opened
        finally:
            await opened.agents.close()
            for worker in opened.workers:
                if not worker._stopping:
                    await worker.stop(grace=0.2)
            await opened.engine.close()


def run(work: Callable[[], Awaitable[T]]) -> T:
    """An asynchronous test, with a deadline for one that would hang."""

    async def bounded() -> T:
        return await asyncio.wait_for(work(), SECONDS)

    return asyncio.run(bounded())


async def until(look: Callable[[], T | None]) -> T:
    """The first answer that is true."""
    end = asyncio.get_running_loop().time() + SECONDS / 2
    while not (found := await asyncio.to_thread(look)):
        assert asyncio.get_running_loop().time() < end, "it never came about"
        await asyncio.sleep(0.01)
    return found


def wants(*calls: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    """A reply that calls tools, all at once."""
    uses = [ToolUse(f"m{place}", name, given) for place, (name, given) in enumerate(calls)]
    return Reply((*([Text(text)] if text else []), *uses), StopReason.TOOL_USE, Usage(100, 10), "scripted")


def last_text(request: Request) -> str:
    """What was said last."""
    texts = [block.text for block in request.messages[-1].content if isinstance(block, Text)]
    return texts[-1] if texts else ""


def results_in(request: Request) -> list[str]:
    """What tools answered just now."""
    return [block.content for block in request.messages[-1].content if isinstance(block, ToolResult)]


def told_first(calls: Sequence[tuple[str, dict[str, Any]]]) -> Callable[[Request], Scripted]:
    """A model that calls these tools first, and then says what they answered."""

    def answer(request: Request) -> Scripted:
        if answered := results_in(request):
            return " | ".join(answered)
        return wants(*calls)

    return answer


class Barrier:
    """A tool that waits until it is let go, and says that it was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._open = threading.Event()

    def __call__(self, key: str) -> None:
        self.calls.append(key)
        assert self._open.wait(SECONDS), "nobody opened it"

    async def called(self, times: int = 1) -> None:
        await until(lambda: len(self.calls) >= times)

    def open(self) -> None:
        self._open.set()


async def make_unreadable(agents: Agents, agent_id: str) -> None:
    """Give an agent a profile that no worker can read, as another version may have stored it."""
    profile = {"name": agent_id, "llm_config": {"max_tokens": "many"}}

    def work(tx: Transaction) -> None:
        agent = get_agent(tx, agents.project, agent_id)
        assert agent is not None
        box = put_profile(tx, agents.project, profile).profile_box_id
        put_agent(tx, replace(agent, profile_box_id=box))

    await agents.engine.database.run("write", work)


async def lose(worker: Worker) -> None:
    """A worker is gone from one moment to the next: it finishes nothing and gives nothing back."""
    assert worker._subscription is not None
    worker._stopping = True
    tasks = [*worker._loops, *worker._handling, *(held.task for held in worker._held.turns)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await worker._guard.close()
    await worker._subscription.close()
    worker._services.close()
