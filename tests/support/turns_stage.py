"""Workers of turns as real processes, on PostgreSQL and a NATS server that a test may stop, with tools it may hold."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from nats.aio.client import Client
from nats.js.api import StreamConfig

from afl.devstack import Stack
from afl.kernel.database import Database, Transaction, connect
from afl.turns.bus import outbox
from afl.turns.bus.nats import STREAMS
from afl.turns.bus.nats_subscriptions import MESSAGE_ID
from afl.turns.cardbox.boxes import create_box, read_box
from afl.turns.cardbox.card_store import result_card_of, save_cards
from afl.turns.cardbox.cards import Card, NewCard, text
from afl.turns.context import TurnContext
from afl.turns.intents import SpawnIntent
from afl.turns.model import TurnRef
from afl.turns.primitives.enqueue import enqueue
from afl.turns.protocol.subjects import PREFIX
from afl.turns.resources import Tool, get_agent, put_agent, put_tool
from afl.turns.statuses import BoxKind, CardType
from afl.turns.store.tables import ensure_tables
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses

PROJECT = "stage"
FORGETS_SECONDS = 0.1  # JetStream knows a message's id for so long; others wait for two minutes
# A tool writes down that it was called, with the process and the call's id. From the HOLD_FROM-th call of a process on
# it says that it is held, and waits until that process is killed.
MODULE = '''import os
import time
from itertools import count

from afl.models import Request, ScriptedModel, Text, ToolUse
from afl.models.messages import Reply, StopReason, ToolResult
from afl.turns import agent, current_call

calls = count(1)
hold_from = int(os.environ.get("HOLD_FROM", "0"))


def write(name, line):
    with open(name, "a") as lines:
        lines.write(line + "\\n")


def _work(part):
    call = current_call().tool_call_id
    write("calls.txt", f"{os.getpid()} {call}")
    if 0 < hold_from <= next(calls):
        write(f"held-{os.getpid()}", call)
        while True:
            time.sleep(60)
    return f"{part} of {call}"


def left(n: int) -> str:
    """One half of the work."""
    return _work("left")


def right(n: int) -> str:
    """The other half."""
    return _work("right")


def uses(*names):
    blocks = tuple(ToolUse(f"m{name}", name, {"n": 1}) for name in names)
    return Reply(blocks, StopReason.TOOL_USE)


def answer(request):
    """First the tool of another process, if there is one, then both of this one, then what they said."""
    names = {tool.name for tool in request.tools}
    done = [b for m in request.messages for b in m.content if isinstance(b, ToolResult)]
    asked = [b.name for m in request.messages for b in m.content if isinstance(b, ToolUse)]
    if "remote" in names and "remote" not in asked:
        return uses("remote")
    if "left" not in asked:
        return uses("left", "right")
    return " | ".join(block.content for block in done)


model = ScriptedModel(answer)
near = agent("near", tools=[left, right])
far = agent("far", tools=[left, right, "remote"])
'''


@dataclass(frozen=True)
class Told:
    """One `evt.agent.*.task` on the stream."""

    agent: str
    turn: str
    message: str
    sequence: int


class Stage:
    """See the module."""

    def __init__(self, folder: Path, url: str, nats: Stack, warm: WarmProcesses) -> None:
        self.folder = folder
        self.url = url
        self._nats = nats
        self.bus = nats.up(["nats"])["nats"]
        self._warm = warm
        self.database: Database = connect(url)
        ensure_tables(self.database)
        (folder / "agents.py").write_text(MODULE)
        self.turns: list[TurnRef] = []
        self._numbers = count(1)

    def close(self) -> None:
        self.database.close()

    def staff(self) -> None:
        """The tool of elsewhere; and the agents, which the first worker brings."""
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        subject = f"{PREFIX}.{{project_id}}.{{channel_id}}.cmd.tool.remote.run"
        tool = Tool(PROJECT, "remote", "Far away.", schema, subject)
        self.database.write(lambda tx: put_tool(tx, tool))
        assert self.started(self.worker()).terminate() == 0

    def hire(self, kind: str, count: int) -> list[str]:
        """More agents like `near` (its tools are the worker's), or like `far` (one tool is elsewhere)."""
        names = [f"{kind}{next(self._numbers)}" for _ in range(count)]

        def work(tx: Transaction) -> None:
            model = get_agent(tx, PROJECT, kind)
            assert model is not None
            for name in names:
                put_agent(tx, replace(model, agent_id=name))

        self.database.write(work)
        return names

    def worker(self, *, concurrency: int = 64, **env: str) -> Warm:
        """`afl turns worker agents.py` on these servers."""
        where = ("--store", self.url, "--bus", self.bus, "--project", PROJECT)
        options = ("--concurrency", str(concurrency), "--suspend-timeout", "120", "--shutdown-timeout", "1")
        quick = {"AFL_POLL_INTERVAL_MS": "100", "AFL_LEASE_MS": "1000", "AFL_MAX_DELIVERIES": "1000"}
        process = ("turns", "worker", "agents.py", *where, *options)
        return self._warm.start(*process, folder=self.folder, **quick | env)

    def started(self, process: Warm) -> Warm:
        """A worker that has said that it works."""
        eventually(lambda: "afl-turns serves" in process.said(), process.said)
        return process

    def stop_nats(self) -> None:
        assert self._nats.down() == ["nats"]

    def start_nats(self) -> None:
        """It has its data, and its port."""
        assert self._nats.up(["nats"])["nats"] == self.bus

    def ask(self, agents: list[str]) -> list[TurnRef]:
        """A turn of each; nobody is told, whoever looks finds them."""
        asked = [self.database.write(partial(_ask, agent=agent)) for agent in agents]
        self.turns += asked
        return asked

    # -- what came of it --------------------------------------------------------------------------------------

    def held_by(self, process: Warm) -> list[str]:
        """Tool calls that a process is in the middle of."""
        path = self.folder / f"held-{process.pid}"
        return path.read_text().splitlines() if path.exists() else []

    def wait_held(self, process: Warm) -> list[str]:
        return eventually(lambda: self.held_by(process), process.said)

    def has_result(self, call: str) -> bool:
        return self.database.read(lambda tx: result_card_of(tx, PROJECT, call)) is not None

    def calls(self) -> Counter[str]:
        """How often each call of a tool was made."""
        path = self.folder / "calls.txt"
        return (
            Counter(line.split()[1] for line in path.read_text().splitlines()) if path.exists() else Counter()
        )

    def open_turns(self) -> list[str]:
        """Turns that are not over."""
        return [turn.agent_turn_id for turn in self.turns if self.ended(turn) is None]

    def ended(self, turn: TurnRef) -> outbox.Stored | None:
        return self.database.read(lambda tx: outbox.task_of_turn(tx, PROJECT, turn.agent_turn_id))

    def output(self, turn: TurnRef) -> list[Card]:
        """What a turn that is over wrote, as it stands in its output box."""
        end = self.ended(turn)
        assert end is not None
        box = end.message.payload["output_box_id"]
        cards = self.database.read(lambda tx: [card for _, card in read_box(tx, PROJECT, box)])
        return [card for card in cards if card.agent_turn_id == turn.agent_turn_id]

    def unpublished(self) -> int:
        return len(self.database.read(lambda tx: outbox.unpublished(tx, 10_000)))

    def told(self) -> list[Told]:
        """The ends of turns that are on the stream, in order."""
        return asyncio.run(_told(self.bus))

    def told_by_turn(self) -> dict[str, list[Told]]:
        found: dict[str, list[Told]] = defaultdict(list)
        for each in self.told():
            found[each.turn].append(each)
        return found


@contextmanager
def staged(folder: Path, url: str, nats: Stack, warm: WarmProcesses) -> Iterator[Stage]:
    """A stage with its agents; what JetStream held before is gone, and it forgets ids at once."""
    stage = Stage(folder, url, nats, warm)
    asyncio.run(_forgetful(stage.bus))
    stage.staff()
    try:
        yield stage
    finally:
        warm.end_all()
        stage.close()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    client = Client()
    await client.connect(url)
    try:
        yield client
    finally:
        await client.close()


async def _forgetful(url: str) -> None:
    async with connected(url) as client:
        streams = client.jetstream()
        for info in await streams.streams_info():
            await streams.delete_stream(info.config.name or "")
        for category, (name, age) in STREAMS.items():
            subjects = [f"{PREFIX}.*.*.{category}.*.*.>"]
            await streams.add_stream(
                StreamConfig(name=name, subjects=subjects, max_age=age, duplicate_window=FORGETS_SECONDS)
            )


async def _told(url: str) -> list[Told]:
    found: list[Told] = []
    subject = f"{PREFIX}.{PROJECT}.*.evt.agent.*.task"
    async with connected(url) as client:
        streams = client.jetstream()
        name = STREAMS["evt"][0]
        info = await streams.stream_info(name, subjects_filter=subject)
        last = 0
        for _ in range(sum((info.state.subjects or {}).values())):
            message = await streams.get_msg(name, seq=last + 1, subject=subject, next=True)
            last = message.seq or 0
            headers = message.headers or {}
            found.append(Told(headers["CG-Agent-Id"], headers["CG-Turn-Id"], headers[MESSAGE_ID], last))
    return found


def _ask(tx: Transaction, agent: str) -> TurnRef:
    card = NewCard(CardType.TASK_INSTRUCTION, text("do it"), "sys.test")
    save_cards(tx, PROJECT, [card])
    boxes = {
        "context_box_id": create_box(tx, PROJECT, BoxKind.CONTEXT, [card.card_id]),
        "output_box_id": create_box(tx, PROJECT, BoxKind.OUTPUT),
    }
    result = enqueue(tx, TurnContext.root(PROJECT, "sys.test"), SpawnIntent(agent, boxes))
    assert result.accepted, result.error
    return TurnRef(PROJECT, agent, result.payload["agent_turn_id"])
