"""The figures of turns: from enqueue to `evt.agent.*.task` with an instant model, against raw one-row commits."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from afl.kernel.database import Database, Transaction, connect
from afl.models import Reply, Request, ScriptedModel, Text, ToolUse
from afl.models.messages import StopReason
from afl.turns.agents import Agents, open_agents
from afl.turns.cardbox.boxes import append, create_output_box
from afl.turns.cardbox.card_store import save_cards
from afl.turns.cardbox.cards import NewCard, text
from afl.turns.message import Message
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.subjects import event_subject
from afl.turns.statuses import CardType
from afl.turns.store.tables import ensure_tables
from bench import turn_streams
from bench.place import Place
from bench.raw import RawPostgres, commit_seconds
from bench.report import Report

PROJECT = "bench"
AGENTS = 8
SAMPLES = 240
ROUNDS = 6
_DONE = Reply((Text("done"),))
_CALLS = Reply(tuple(ToolUse(f"m{n}", "echo", {"n": n}) for n in range(3)), StopReason.TOOL_USE)


def measure(report: Report, place: Place) -> None:
    """Every figure of turns."""
    postgres, nats = place.server("postgres"), place.server("nats")
    asyncio.run(_turns(report, postgres, nats, place.sqlite()))
    for name, url in (("PostgreSQL", postgres), ("SQLite", place.sqlite())):
        with connect(url) as database:
            ensure_tables(database)
            _appending(report, name, database)
    turn_streams.measure(report, place)


def echo(n: int) -> int:
    """The same number."""
    return n


def instant(request: Request) -> Reply:
    """Calls three tools when it is told to, and is done."""
    last = request.messages[-1].content[-1]
    return _CALLS if isinstance(last, Text) and last.text == "tools" else _DONE


async def _turns(report: Report, postgres: str, nats: str, sqlite: str) -> None:
    """In alternating rounds: a machine is not as fast all the time."""
    raw = RawPostgres(postgres)
    async with _house(postgres, nats) as far_house, _house(sqlite, None) as near_house:
        far, near = Measured(far_house), Measured(near_house)
        for each in (far, near):
            await each.house.each("one", 3)
        commits = []
        for _ in range(ROUNDS):
            await asyncio.sleep(0.1)  # what the last turns left to record is no part of it
            commits.append(commit_seconds(raw, 100))
            await far.round()
            await near.round()
        _against(report, far, statistics.median(commits))
        for name, each in (("PostgreSQL + NATS", far), ("SQLite", near)):
            await _tools(report, name, each)
    detail = f"{near.p50 * 1e3:.1f} ms"
    report.add("one-step turn: SQLite / PostgreSQL + NATS, p50", near.p50 / far.p50, "at_most", 1, detail)
    detail = f"{near.rate:.0f} turns/s"
    title = f"turns/s of {AGENTS} agents: SQLite / PostgreSQL + NATS"
    report.add(title, near.rate / far.rate, "at_least", 1, detail)


class Measured:
    """Turns of one house: of one agent in sequence, and of many side by side."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._single: list[float] = []
        self.busy: list[float] = []
        self._seconds = 0.0

    async def round(self) -> None:
        """One part of the samples."""
        self._single += await self.house.each("one", SAMPLES // AGENTS // ROUNDS, agents=1)
        begin = time.perf_counter()
        self.busy += await self.house.each("one", SAMPLES // AGENTS // ROUNDS)
        self._seconds += time.perf_counter() - begin

    @property
    def p50(self) -> float:
        return statistics.median(self._single)

    @property
    def rate(self) -> float:
        return len(self.busy) / self._seconds


async def _tools(report: Report, name: str, measured: Measured) -> None:
    for agents, base in ((1, measured.p50), (AGENTS, statistics.median(measured.busy))):
        tools = statistics.median(await measured.house.each("tools", 150 // AGENTS, agents=agents))
        title = f"{name}: three tools / one step, p50 of {agents} agents"
        report.add(title, tools / base, "at_most", 3, f"{tools * 1e3:.1f} ms")


def _against(report: Report, far: Measured, commit: float) -> None:
    """Commits of a tight loop: one between two turns is slower by its cold caches alone."""
    name, detail = "PostgreSQL + NATS", f"{far.p50 * 1e3:.1f} ms, raw {commit * 1e3:.2f} ms"
    report.add(f"{name}: one-step turn / raw commit, p50", far.p50 / commit, "at_most", 40, detail)
    detail = f"{far.rate:.0f} turns/s, raw {1 / commit:.0f}/s"
    title = f"{name}: turns/s of {AGENTS} agents x 30 / raw commits/s"
    report.add(title, far.rate * commit * 30, "at_least", 1, detail)


class House:
    """Agents, and the moment at which the end of each turn was heard."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._ends: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Future[None]] = {}

    async def open(self) -> None:
        subject = event_subject(PROJECT, "*", "*", "task")
        await self._agents.engine.bus.subscribe([subject], self._receive)
        for n in range(AGENTS):
            await self._agents.define(f"agent{n}", tools=[echo])

    async def each(self, what: str, times: int, agents: int = AGENTS) -> list[float]:
        """Seconds per turn, of agents side by side, each with one turn after another."""
        count = times * AGENTS // agents
        found = await asyncio.gather(
            *(self._one_after_another(f"agent{n}", what, count) for n in range(agents))
        )
        return [seconds for each in found for seconds in each]

    async def _one_after_another(self, agent: str, what: str, times: int) -> list[float]:
        found = []
        for _ in range(times):
            begin = time.perf_counter()
            turn = (await self._agents.send(agent, what)).agent_turn_id
            found.append(await self._end(turn) - begin)
        return found

    async def _end(self, turn: str) -> float:
        if turn not in self._ends:
            self._waiting[turn] = asyncio.get_running_loop().create_future()
            await self._waiting[turn]
        return self._ends.pop(turn)

    async def _receive(self, message: Message) -> None:
        turn = message.payload["agent_turn_id"]
        self._ends[turn] = time.perf_counter()
        if turn in self._waiting:
            self._waiting.pop(turn).set_result(None)


@asynccontextmanager
async def _house(store: str, bus: str | None) -> AsyncIterator[House]:
    async with open_agents(store, bus=bus, project=PROJECT, model=ScriptedModel(instant)) as agents:
        house = House(agents)
        await house.open()
        yield house


def _appending(report: Report, name: str, database: Database) -> None:
    """What one more card costs in a box of 10,000, and in an empty one."""
    boxes = {"empty": _box(database, 0), "full": _box(database, 10_000)}
    costs: dict[str, list[float]] = {"empty": [], "full": []}
    for _ in range(200):
        for kind, (box, turn) in boxes.items():
            card = NewCard(CardType.AGENT_THOUGHT, text("hm"), "sys.bench")
            begin = time.perf_counter()
            database.write(_append(box, turn, card))
            costs[kind].append(time.perf_counter() - begin)
    empty, full = statistics.median(costs["empty"]), statistics.median(costs["full"])
    detail = f"{full * 1e6:.0f} µs, empty {empty * 1e6:.0f} µs"
    report.add(f"{name}: append to a box of 10,000 / to an empty one", full / empty, "at_most", 1.3, detail)


def _box(database: Database, cards: int) -> tuple[str, str]:
    box, turn = new_id("box"), new_id("turn")
    made = [NewCard(CardType.AGENT_THOUGHT, text("hm"), "sys.bench") for _ in range(cards)]

    def work(tx: Transaction) -> None:
        create_output_box(tx, PROJECT, box, turn)
        if made:
            save_cards(tx, PROJECT, made)
            append(tx, PROJECT, box, turn, [card.card_id for card in made])

    database.write(work)
    return box, turn


def _append(box: str, turn: str, card: NewCard) -> Callable[[Transaction], Any]:
    def work(tx: Transaction) -> None:
        save_cards(tx, PROJECT, [card])
        append(tx, PROJECT, box, turn, [card.card_id])

    return work
