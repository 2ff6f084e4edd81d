"""A turn with all of it (tools elsewhere, MCP, approval, a stream, a typed result) whose processes die at each commit.

Everything is in this process, on a store in memory; `test_turns_everything_kills.py` kills real processes.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from support.lives import Death
from support.turn_lives import MortalProcess
from support.turns_office import Office, Place, lose, office, run, wants

from afl.kernel.canceling import cancel_and_wait
from afl.models import Reply, Request, ScriptedModel
from afl.models.messages import ToolResult
from afl.turns import AgentEvent, Ask, Guardrails, McpServer, ToolService, TurnRef
from afl.turns.bus import open_bus, outbox
from afl.turns.engine import L0Engine
from afl.turns.statuses import CardType
from afl.turns.store.approvals import open_approvals
from afl.turns.tools.answering import approve_call
from afl.turns.tools.declaring import tool
from afl.turns.tools.local import current_call
from afl.turns.turn_events import EventPosition, read_turn_page
from afl.turns.worker.worker import Worker


@dataclass
class Receipt:
    """What the turn comes to."""

    found: int
    paid: str
    note: str


def seen_by_a_person(result: Any) -> Ask:
    return Ask("finance", "receipts are read by people")


class Books:
    """The tools, in all their places, and which call of theirs was made how often."""

    def __init__(self) -> None:
        self.made: Counter[tuple[str, str]] = Counter()
        self.server = MCPServer("notes", log_level="ERROR")

        def note(name: str, context: Context[Any]) -> None:
            meta: Any = context.request_context.meta
            self._make(name, dict(meta)["agentflow/idempotency-key"].rpartition("/")[2])

        @self.server.tool(annotations=ToolAnnotations(read_only_hint=True))
        def find(words: str, ctx: Context[Any]) -> str:
            """Notes."""
            note("find", ctx)
            return f"a note about {words}"

        @self.server.tool()
        def write(text: str, ctx: Context[Any]) -> str:
            """Write a note."""
            note("write", ctx)
            return f"wrote {text}"

        def count_orders(day: str) -> int:
            """How many there were; in another process."""
            self._make("count_orders", current_call().tool_call_id)
            return 7

        @tool(approve="finance")
        def pay(cents: int) -> str:
            """Pay."""
            self._make("pay", current_call().tool_call_id)
            return f"paid {cents}"

        self.elsewhere, self.pay = count_orders, pay

    def _make(self, name: str, call: str) -> None:
        self.made[name, call] += 1

    @property
    def repeated(self) -> set[tuple[str, str]]:
        return {call for call, times in self.made.items() if times > 1}


def clerk(request: Request) -> Reply:
    """Looks, pays, writes, and delivers what it read."""
    read = [b.content for m in request.messages for b in m.content if isinstance(b, ToolResult)]
    if not read:
        return wants(("count_orders", {"day": "today"}), ("find", {"words": "whales"}), text="I look.\n")
    if len(read) == 2:
        return wants(("pay", {"cents": 500}), text="I pay.\nNow.\n")
    if len(read) == 3:
        return wants(("write", {"text": "done"}))
    result = {"found": int(read[0]), "paid": read[2], "note": read[3]}
    return wants(("submit_result", {"result": result}), text="That is all.\n")


class Reader:
    """Reads the stream of a turn in small pages, each time as somebody who connects again where the last one ended."""

    def __init__(self, there: Office, turn: TurnRef, seed: int) -> None:
        self._there = there
        self._turn = turn
        self._random = random.Random(seed)
        self._position = ""
        self.events: list[AgentEvent] = []

    def read(self, limit: int | None = None) -> bool:
        """One page; whether the turn is over and all of it was read."""
        most = limit or self._random.randint(1, 3)
        place, there, turn = EventPosition.of(self._position), self._there, self._turn.agent_turn_id
        page = there.read(lambda tx: read_turn_page(tx, there.project, turn, place, most))
        self.events += page.events
        self._position = page.position
        return page.over

    def told(self) -> list[tuple[str, int, str, str]]:
        """All but text, which is best effort."""
        kept = [event for event in self.events if event.kind != "text"]
        return [(event.kind, event.step, event.tool, event.text) for event in kept]


class Stage:
    """An office whose worker and tool service are processes that may die, and are replaced."""

    def __init__(self, there: Office, books: Books) -> None:
        self.there = there
        self.books = books
        self.dead: set[str] = set()
        self.stored_at_death: set[str] = set()
        self._numbers = count(1)
        self._processes: list[tuple[MortalProcess, L0Engine]] = []
        self._workers: list[Worker] = []
        self._services: list[ToolService] = []

    async def close(self) -> None:
        for process, _ in self._processes:
            process.clear()
        for worker in self._workers:
            await lose(worker)
        for service in self._services:
            await service.stop()
        for _, engine in self._processes:
            await engine.close()

    async def _engine(self, name: str) -> tuple[MortalProcess, L0Engine]:
        process = MortalProcess(self.there.database, f"{name}-{next(self._numbers)}", self.dead)
        database: Any = process
        engine = L0Engine(database, open_bus(database), self.there.engine.limits)
        await engine.start()
        self._processes.append((process, engine))
        return process, engine

    async def worker(self) -> MortalProcess:
        process, engine = await self._engine("worker")
        worker = Worker(
            engine,
            ScriptedModel(clerk),
            tools=self.there.agents.toolbox,
            poll_seconds=0.05,
            watch_seconds=0.03,
        )
        await worker.start()
        self._workers.append(worker)
        return process

    async def service(self) -> MortalProcess:
        process, engine = await self._engine("service")
        service = ToolService(engine, self.there.project, [self.books.elsewhere], target="orders")
        await service.register()
        await service.start()
        self._services.append(service)
        return process

    def note_death(self, turn: TurnRef) -> None:
        """Calls that have a result by now must not be made again."""
        head = self.there.head(turn.agent_id)
        cards = self.there.cards(head.output_box_id) if head.output_box_id else []
        self.stored_at_death = {card.tool_call_id for card in cards if card.type == CardType.TOOL_RESULT}

    async def replace(self, process: MortalProcess, turn: TurnRef, start: Any) -> None:
        """Wait for the death of a process, and start another one like it."""
        await process.is_dead.wait()
        self.note_death(turn)
        await start()

    async def answer(self) -> None:
        """The person: approves whatever is asked."""
        database = self.there.database
        while True:
            for question in self.there.read(lambda tx: open_approvals(tx)):
                done = database.write(
                    lambda tx, asked=question: approve_call(tx, asked, asked.arguments, "grace")  # type: ignore[misc]
                )
                self.there.agents.engine.tell(*done.signals)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def staged(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    books = Books()

    @asynccontextmanager
    async def opened(server: McpServer, **options: Any) -> AsyncIterator[Client]:
        async with Client(books.server) as client:
            yield client

    monkeypatch.setattr("afl.turns.mcp.sessions.opened", opened)
    async with office(Place("memory://", None)) as there:
        await there.agents.define(
            "clerk",
            tools=[books.pay, "count_orders"],
            mcp=[McpServer(command=["notes"], name="notes")],
            result=Receipt,
            guardrails=Guardrails(output=[seen_by_a_person]),
        )
        stage = Stage(there, books)
        try:
            yield stage
        finally:
            await stage.close()


async def live(stage: Stage, worker: Death | None, service: Death | None, seed: int) -> bool:
    """One turn; whether somebody died at its chosen commit."""
    serving, working = await stage.service(), await stage.worker()
    serving.doom(service)
    working.doom(worker)
    turn = await stage.there.agents.send("clerk", "Go.")
    reader = Reader(stage.there, turn, seed)
    helpers = [
        asyncio.create_task(stage.replace(working, turn, stage.worker)),
        asyncio.create_task(stage.replace(serving, turn, stage.service)),
        asyncio.create_task(stage.answer()),
    ]
    waiting = asyncio.create_task(stage.there.agents.wait(turn))
    while not waiting.done():
        for each in helpers:
            assert not each.done() or each.exception() is None
        reader.read()
        await asyncio.wait([waiting], timeout=0.01)
    got = await waiting
    while not reader.read():
        pass
    check(stage, turn, reader, got.data)
    await cancel_and_wait(helpers)
    return working.is_dead.is_set() or serving.is_dead.is_set()


def check(stage: Stage, turn: TurnRef, reader: Reader, result: Any) -> None:
    """The same end as without a death."""
    there, books = stage.there, stage.books
    assert result == {"found": 7, "paid": "paid 500", "note": '{"result":"wrote done"}'}
    assert there.count("state.outbox", "kind = 'task'") == 1
    assert there.read(lambda tx: outbox.task_of_turn(tx, there.project, turn.agent_turn_id)) is not None
    assert {name for name, _ in books.made} == {"count_orders", "find", "pay", "write"}
    assert len(books.made) == 4 and max(books.made.values()) <= 2
    for name, call in books.repeated:
        place = "service" if name == "count_orders" else "worker"
        assert any(each.startswith(place) for each in stage.dead), f"{name} was repeated"
        assert call not in stage.stored_at_death, f"{name} was repeated, though it had a result"
    assert there.count("state.tool_approvals") == 3
    whole = Reader(there, turn, 0)
    whole.read(1_000)
    assert reader.told() == whole.told()
    calls = [(kind, name) for kind, _, name, _ in reader.told() if name]
    assert sorted(calls) == sorted(
        [
            *(("tool-call", name) for name in ("count_orders", "find", "pay", "write", "submit_result")),
            *(("tool-result", name) for name in ("count_orders", "find", "pay", "write", "submit_result")),
            *(("approval-needed", name) for name in ("pay", "write", "guardrail:output")),
        ]
    )
    assert [kind for kind, *_ in reader.told()].count("result") == 1


@pytest.mark.parametrize("victim", ["worker", "service"])
def test_a_death_after_each_commit(monkeypatch: pytest.MonkeyPatch, victim: str) -> None:
    """With all that it would have told after the commit: a death before the next one leaves the same store."""

    async def once(write: int) -> bool:
        death = Death(write, after=True)
        async with staged(monkeypatch) as stage:
            given = (death, None) if victim == "worker" else (None, death)
            return await live(stage, *given, seed=write)

    deaths = next(write - 1 for write in count(1) if not run(partial(once, write)))
    assert deaths > (12 if victim == "worker" else 3)


def test_both_die(monkeypatch: pytest.MonkeyPatch) -> None:
    async def once(write: int) -> bool:
        async with staged(monkeypatch) as stage:
            return await live(stage, Death(write, after=False), Death(write // 2, after=False), seed=write)

    assert all(run(partial(once, write)) for write in (4, 8, 12))
