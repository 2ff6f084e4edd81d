"""Agents with everything as programs: a worker, a tool service, an MCP server and a web server, each a process.

Each turn is told one place where it is held until the file `go` is there; `journal` has who was at which place.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from afl.kernel.database import Database, Query, connect
from afl.turns import TurnRef
from afl.turns.bus import outbox
from afl.turns.cardbox.boxes import read_box
from afl.turns.statuses import CardType
from afl.turns.store.approvals import ToolApproval, open_approvals
from afl.turns.tools.answering import approve_call
from support.command_line import environment
from support.eventually import eventually
from support.warm_processes import Warm, WarmPopen, WarmProcesses

PLACES = ("model_first", "count_orders", "find", "approval", "pay", "write", "model_last")
_HELD = """import json
import os
import time
from pathlib import Path


def reached(name, place, call=""):
    "Write down that something was reached; wait if the turn is to be held here."
    with open("journal", "a") as lines:
        lines.write(json.dumps([name, place, call, os.getpid()]) + "\\n")
    while name == place and not Path("go").exists():
        time.sleep(0.005)
"""
_AGENTS = '''from dataclasses import dataclass

from held import reached
from afl.models import Reply, Text, ToolUse
from afl.models.messages import StopReason, ToolResult
from afl.turns import McpServer, agent, current_call, tool


@dataclass
class Receipt:
    found: int
    paid: str
    note: str


@tool(approve="finance")
def pay(cents: int, place: str) -> str:
    """Pay."""
    reached("pay", place, current_call().tool_call_id)
    return f"paid {cents}"


def use(name, text="", **given):
    return Reply((Text(text), ToolUse(f"u-{name}", name, given)), StopReason.TOOL_USE)


def answer(request):
    """Looks, pays, writes, and delivers; what was lost on its way is called again."""
    place = next(b.text for b in request.messages[0].content if isinstance(b, Text)).strip()
    said = [b.content for m in request.messages for b in m.content if isinstance(b, ToolResult)]
    read = [each for each in said if "mcp_connection_lost" not in each]
    if not read:
        reached("model_first", place)
        return use("count_orders", "I look.\\n", place=place)
    if len(read) == 1:
        return use("find", place=place)
    if len(read) == 2:
        return use("pay", "I pay.\\n", cents=500, place=place)
    if len(read) == 3:
        return use("write", place=place)
    reached("model_last", place)
    result = {"found": int(read[0]), "paid": read[2], "note": read[3]}
    return use("submit_result", "That is all.\\n", result=result)


class Model:  # one that answers several turns at once
    name = "clerk"

    def resolve(self, name):
        return name or self.name

    def complete(self, request, on_text=None):
        reply = answer(request)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply


model = Model()
notes = McpServer(command=COMMAND, name="notes")
for place in PLACES:
    globals()[f"clerk_{place}"] = agent(
        f"clerk-{place}", tools=[pay, "count_orders"], mcp=[notes], result=Receipt
    )
'''
_SERVICE = '''import asyncio
import sys

from held import reached
from afl.turns import ToolService, current_call, open_agents


def count_orders(place: str) -> int:
    """How many."""
    reached("count_orders", place, current_call().tool_call_id)
    return 7


async def main():
    async with open_agents(sys.argv[1]) as agents:
        service = ToolService(agents.engine, agents.project, [count_orders], target="orders", concurrency=20)
        await service.register()
        await service.start()
        print("ready", flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
'''
_NOTES = '''from typing import Any

import anyio
from held import reached
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("notes", log_level="ERROR")


async def note(name: str, place: str, context: Any) -> None:
    key = dict(context.request_context.meta)["agentflow/idempotency-key"].rpartition("/")[2]
    await anyio.to_thread.run_sync(reached, name, place, key, abandon_on_cancel=True)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def find(place: str, ctx: Context[Any]) -> str:
    """Notes."""
    await note("find", place, ctx)
    return "a note"


@server.tool()
async def write(place: str, ctx: Context[Any]) -> str:
    """Write a note."""
    await note("write", place, ctx)
    return "wrote it"


server.run("stdio")
'''


@dataclass
class StreamReader:
    """Somebody who reads the events of a turn over HTTP, and connects again after the last one until it is over."""

    stage: EverythingStage
    turn: TurnRef
    events: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0

    def start(self) -> StreamReader:
        self.thread = threading.Thread(target=self._read_all, daemon=True)
        self.thread.start()
        return self

    @property
    def told(self) -> list[tuple[str, int, str, str]]:
        """All but text, which is best effort."""
        kept = [event for event in self.events if event["kind"] != "text"]
        return [(event["kind"], event["step"], event["tool"], event["position"]) for event in kept]

    def _read_all(self) -> None:
        while not self.stage.closed and not (self.events and self.events[-1]["kind"] in ("result", "failed")):
            try:
                self._read()
            except httpx2.HTTPError:
                threading.Event().wait(0.02)  # the server is away

    def _read(self) -> None:
        headers = {"Accept": "text/event-stream"}
        if self.events:
            headers["Last-Event-ID"] = self.events[-1]["position"]
        path = f"{self.stage.url}/api/v1/turns/{self.turn.agent_turn_id}/events"
        with self.stage.http.stream("GET", path, headers=headers) as response:
            response.raise_for_status()
            self.connections += 1
            for line in response.iter_lines():
                if line.startswith("data: "):
                    self.events.append(json.loads(line.removeprefix("data: ")))


class EverythingStage:
    """The parts by their names: worker, service, notes (the MCP server, which its worker starts) and web."""

    def __init__(self, folder: Path, store: str, warm: WarmProcesses) -> None:
        self.folder, self.store, self.url = folder, store, ""
        self.closed = False
        self.http = httpx2.Client(verify=False, timeout=60)
        self._warm = warm
        self._parts: dict[str, Warm | WarmPopen] = {}
        self.database: Database = connect(store)
        table = "state.outbox" if self.database.dialect == "postgres" else "state_outbox"
        self._ends = Query.of(
            f"select count(*) as n from {table} where kind = 'task' and agent_turn_id = :turn"
        )
        command = warm.command([str(folder / "notes.py"), "mcp-server"])
        agents = _AGENTS.replace("COMMAND", repr(command)).replace("PLACES", repr(PLACES))
        files = {"held": _HELD, "agents": agents, "service": _SERVICE, "notes": _NOTES}
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)

    def close(self) -> None:
        self.closed = True
        self.let_go()
        for part in list(self._parts):
            self.kill(part)
        self.http.close()
        self.database.close()

    # -- processes --------------------------------------------------------------------------------------------

    def start(self, part: str) -> None:
        env = {"AFL_POLL_INTERVAL_MS": "100", "AFL_LEASE_MS": "1000", "PYTHONPATH": str(self.folder)}
        if part == "worker":
            worker = self._warm.start(
                "turns", "worker", "agents.py", "--store", self.store, folder=self.folder, **env
            )
            self._parts[part] = worker
            eventually(lambda: "serves" in worker.said(), worker.said)
            return
        argv = ["-m", "afl", "dashboard", "--port", "0", "--store", self.store]
        process = WarmPopen(
            [str(self.folder / "service.py"), self.store] if part == "service" else argv,
            cwd=self.folder,
            env=environment(**env),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        self._parts[part] = process
        said = process.stdout.readline().strip()
        assert said, f"{part} did not start"
        self.url = said if part == "web" else self.url

    def kill(self, part: str) -> None:
        """kill -9."""
        process = self._parts.pop(part)
        process.kill()
        process.wait()
        if isinstance(process, WarmPopen) and process.stdout is not None:
            process.stdout.close()

    # -- turns ------------------------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Forget what was done so far."""
        for name in ("go", "journal"):
            (self.folder / name).unlink(missing_ok=True)

    def let_go(self) -> None:
        """No turn is held any longer."""
        (self.folder / "go").touch()

    def journal(self) -> list[tuple[str, str, str, int]]:
        """What was reached: its name, the place where its turn is held, the call and the process."""
        path = self.folder / "journal"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def held(self) -> set[str]:
        """The places where turns are held by now."""
        return {place for name, place, *_ in self.journal() if name == place}

    def calls(self) -> Counter[tuple[str, str]]:
        """How often each call of a tool was made, by the place of its turn and its name."""
        return Counter((place, name) for name, place, call, _ in self.journal() if call)

    def pid_of(self, name: str) -> int:
        return next(pid for found, _, _, pid in self.journal() if found == name)

    def questions(self) -> list[ToolApproval]:
        return self.database.read(lambda tx: open_approvals(tx))

    def approve(self, *, but: str = "") -> None:
        """Answer what is asked, except by the agent of one place."""
        for question in self.questions():
            if question.agent_id != f"clerk-{but}":
                self.database.write(
                    lambda tx, asked=question: approve_call(tx, asked, asked.arguments, "grace")
                )  # type: ignore[misc]

    def ends_of(self, turn: TurnRef) -> int:
        """How often the turn has ended: how many `evt.task` of it there are."""
        row = self.database.read(lambda tx: tx.one(self._ends, turn=turn.agent_turn_id))
        return 0 if row is None else int(row["n"])

    def result_of(self, turn: TurnRef) -> Any:
        """The data that a turn delivered, at its one end."""
        end = self.database.read(lambda tx: outbox.task_of_turn(tx, "main", turn.agent_turn_id))
        assert end is not None and self.ends_of(turn) == 1
        box = end.message.payload["output_box_id"]
        cards = [card for _, card in self.database.read(lambda tx: read_box(tx, "main", box))]
        own = [card for card in cards if card.agent_turn_id == turn.agent_turn_id]
        (delivered,) = [card for card in own if card.type == CardType.TASK_DELIVERABLE]
        return delivered.content["data"]
