"""The example with all bridges on a stage: every part is a real process, and every other side can be held at work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from afl.coordination import AgentId, RedisMessageCoordinator
from afl.fleet.client import Client
from afl.fleet.requests import ListRuns
from afl.kernel.database import queries
from afl.operations.people import approvals
from afl.operations.program.sources import choose_workflow, compile_sources, read_files
from afl.runtime.entities import RunDefinition, TaskDefinition, TaskHold
from afl.runtime.evaluator import Evaluator
from afl.runtime.store import open_store
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.types import WorkflowId
from support.eventually import eventually
from support.fleet_agents import AgentProcess
from support.principals import PrincipalProcess
from support.warm_processes import Warm, WarmProcesses

EXAMPLE = Path(__file__).parents[2] / "examples" / "everything"
LETTER = "Nous sommes désolés. Nous vous rendons 16.5 euros."
Q = queries("afl.turns.store", "sql/inbox")

# Each side writes down that it is at work, and goes on once it may.
_HELD = """import os
import time
from pathlib import Path

FOLDER = Path({folder!r})


def held(side):
    with (FOLDER / f"{{side}}.log").open("a") as lines:
        lines.write(f"{{os.getpid()}}\\n")
    while not (FOLDER / f"{{side}}.go").exists():
        time.sleep(0.01)

"""
_CLERK = '''
import sys

sys.path.insert(0, {example!r})
from agents import model
from afl.turns import agent


def parcel(order: str) -> dict:
    """How late it was."""
    held("agent")
    return {{"days_late": 3}}


clerk = agent("clerk", tools=[parcel])
'''
_ANSWERS = """
import sys

sys.path.insert(0, {example!r})
import agents
from afl.bridges import answers


@answers("translator")
def translate(text: str, language: str) -> dict:
    held("message")
    return agents.translate(text, language)
"""
_PAY = """
import sys

sys.path.insert(0, {example!r})
from agents import pay
"""
_AMOUNT = """
name: What is owed
on_crash: requeue
params:
  order: {type: string}
  days_late: {type: integer}
tasks:
  owed:
    name: Owed
    config: !Subprocess
      cmd: sh
      args:
        - -c
        - 'echo $$ >> FOLDER/fleet.log; until [ -e FOLDER/fleet.go ]; do sleep 0.02; done; echo "{\\"amount\\": 16.5}"'
"""


class RefundStage:
    """The processes by their parts; `kill` ends one with SIGKILL, `start` lets another take its place."""

    def __init__(self, folder: Path, warm: WarmProcesses, **environment: str) -> None:
        self.folder = folder
        self.environment = environment
        self._warm = warm
        self._processes: dict[str, Warm | AgentProcess] = {}
        self.principal = PrincipalProcess(folder, CDKTR_AGENT_HEARTBEAT_TIMEOUT_MS="1500")
        self.principal.write_workflow("amount", _AMOUNT.replace("FOLDER", str(folder)))
        for name, text in (("clerk", _CLERK), ("translator", _ANSWERS), ("cashier", _PAY)):
            given = {"folder": str(folder), "example": str(EXAMPLE)}
            (folder / f"{name}.py").write_text((_HELD + text).format(**given))
        store = open_store(environment["AFL_STORE"])
        assert isinstance(store, SqlStore)
        self.store = store

    def close(self) -> None:
        for name in list(self._processes):
            if isinstance(self._processes[name], AgentProcess):
                self.kill(name)
        self.principal.close()
        self.store.close()

    # -- processes --------------------------------------------------------------------------------------------

    def start(self, part: str) -> None:
        if part == "principal":
            self.principal.start()
        elif part == "fleet agent":
            self._processes[part] = AgentProcess(self.principal.settings, self.folder / "fleet-agent")
        else:
            self._processes[part] = self._command(part)

    def _command(self, part: str) -> Warm:
        args = {
            "runner": ["runner", "--no-http", "--agent", "cashier.py"],
            "turn worker": ["turns", "worker", "clerk.py"],
            "message agent": ["agent", "translator.py"],
        }[part.rstrip(" 2")]
        fleet = {"CDKTR_PRINCIPAL_PORT": str(self.principal.settings.principal_port)}
        quick = {"AFL_LEASE_MS": "2000", "AFL_POLL_INTERVAL_MS": "200", "CDKTR_DEFAULT_ZMQ_TIMEOUT_MS": "500"}
        return self._warm.start(*args, folder=self.folder, **self.environment, **fleet, **quick)

    def kill(self, part: str) -> None:
        if part == "principal":
            self.principal.kill()
        else:
            self._processes.pop(part).kill()

    def said(self) -> list[str]:
        told = [each.said() for each in self._processes.values() if isinstance(each, Warm)]
        return [*told, *(f"{task.via} {task.state} {task.hold} {task.error}" for task in self.all_tasks())]

    # -- the run ----------------------------------------------------------------------------------------------

    def submit(self) -> str:
        program = choose_workflow(compile_sources(read_files([EXAMPLE / "refund.afl"])))
        self.run = Evaluator(self.store).submit(program)
        return self.run

    def all_tasks(self) -> list[TaskDefinition]:
        return self.store.get_tasks_by_workflow(WorkflowId(self.run))

    def task(self, kind: str) -> TaskDefinition:
        (task,) = [each for each in self.all_tasks() if each.via.startswith(kind)]
        return task

    def began(self, side: str) -> int:
        """How often a side has begun to work."""
        path = self.folder / f"{side}.log"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def at_work(self, side: str, times: int = 1) -> None:
        """Wait until a side has begun so often; its step waits for it."""
        eventually(lambda: self.began(side) >= times, self.said)
        assert self.task(side).hold == TaskHold.ELSEWHERE

    def let_go(self, side: str) -> None:
        (self.folder / f"{side}.go").touch()

    def approve(self) -> None:
        def asked() -> list[approvals.Approval]:
            return approvals.list_approvals(self.store, group="finance")

        (question,) = eventually(asked, self.said)
        approvals.answer(self.store, question.id, {"amount": 16.5}, by="grace")

    def completed(self) -> RunDefinition:
        def over() -> RunDefinition | None:
            run = self.store.get_run(WorkflowId(self.run))
            return run if run is not None and run.is_over else None

        return eventually(over, self.said)

    # -- what the other sides know ----------------------------------------------------------------------------

    def turns(self) -> list[str]:
        rows = self.store.database.read(
            lambda tx: tx.all(Q.rows_of_agent, project="main", agent="clerk", limit=100)
        )
        return [row["correlation_id"] for row in rows if row["message_type"] == "turn"]

    def fleet_runs(self) -> list[str]:
        with Client(self.principal.settings) as client:
            return [run.run_id for run in client.call(ListRuns(limit=100), retry=True)]

    def messages(self) -> list[str]:
        """The ids of all that was ever sent to the translator on the server."""

        async def look() -> list[Any]:
            async with Redis.from_url(self.environment["AFL_REDIS"]) as redis:
                return await RedisMessageCoordinator(redis, "ao").audit_trail(AgentId(type="translator"))

        return [line.message_id for line in asyncio.run(look()) if line.event == "sent"]


@contextmanager
def refund_stage(folder: Path, warm: WarmProcesses, **environment: str) -> Iterator[RefundStage]:
    stage = RefundStage(folder, warm, **environment)
    try:
        yield stage
    finally:
        stage.close()
