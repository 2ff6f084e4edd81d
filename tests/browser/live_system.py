"""Everything that a dashboard shows, alive: runner, agents of turns, a fleet, messages; each a process of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses

from afl.fleet.settings import FleetSettings
from afl.kernel.settings import Settings, load_settings
from afl.operations.program import submission
from afl.operations.program.sources import program_of
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.store import open_store
from afl.runtime.types import WorkflowId

P = ParamSpec("P")
T = TypeVar("T")
LIVE = Path(__file__).with_name("live")
SHOP = (LIVE / "shop.afl").read_text()
PRELOADED = ("afl.cli.dashboard_command", "afl.dashboard.app", "afl.cli.fleet_command", "afl.fleet.agent")
_PRINCIPAL = re.compile(r"principal ready on tcp://\S+:(\d+) ")
_DASHBOARD = re.compile(r"https?://127\.0\.0\.1:\d+")


class LiveSystem:
    """One folder, one store; `url` is the dashboard that needs no login."""

    def __init__(self, folder: Path, processes: WarmProcesses, redis_url: str) -> None:
        self.folder = folder
        self.gates = folder / "gates"
        self.gates.mkdir()
        self.store_url = f"sqlite:///{folder}/afl.db"
        self._processes = processes
        self._thread = ThreadPoolExecutor(1)
        self._variables = {
            "AFL_STORE": self.store_url,
            "AFL_REDIS": redis_url,
            "GATES": str(self.gates),
            "CDKTR_APP_DATA_DIRECTORY": str(folder / "fleet"),
            "CDKTR_DB_PATH": str(folder / "fleet.db"),
            "CDKTR_WORKFLOW_DIR": str(LIVE / "fleet"),
            "CDKTR_LOGS_LISTENING_PORT": "0",
            "CDKTR_LOGS_PUBLISHING_PORT": "0",
            "CDKTR_LOG_LEVEL": "WARN",
        }
        self.fleet = FleetSettings()
        self.url = ""

    def start(self) -> None:
        """Returns when all of it works."""
        principal = self.process("fleet", "principal", "--with-agent", "--port", "0")
        port = told(principal, _PRINCIPAL)[1]
        self._variables["CDKTR_PRINCIPAL_PORT"] = port
        folder = str(self.folder / "fleet")
        self.fleet = replace(FleetSettings(), principal_port=int(port), app_data_directory=folder)
        handlers = [f"--agent={LIVE / 'agents.py'}{part}" for part in ("", ":models")]
        self.process("runner", *handlers, "--no-http", "--name", "shop-floor", "--concurrency", "8")
        self.process("turns", "worker", str(LIVE / "turn_agents.py"))
        self.url = self.dashboard()

    def dashboard(self, *options: str, **environment: str) -> str:
        """Start one; its address."""
        process = self.process("dashboard", "--port", "0", *options, **environment)
        return told(process, _DASHBOARD)[0]

    def process(self, *args: str, **environment: str) -> Warm:
        """An `afl` command; it ends with the system."""
        return self._processes.start(*args, folder=self.folder, **self._variables, **environment)

    def close(self) -> None:
        self._thread.shutdown()
        self.store.close()

    @cached_property
    def settings(self) -> Settings:
        """What a command in the folder would read."""
        return load_settings({"store": self.store_url, "redis": self._variables["AFL_REDIS"]}, environ={})

    @cached_property
    def store(self) -> PersistenceAPI:
        return open_store(self.store_url)

    def do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In a thread of its own: the browser has the loop of this one, and `asyncio.run` refuses a second."""
        return self._thread.submit(work, *args, **kwargs).result()

    def submit(self, workflow: str, **inputs: Any) -> str:
        """A run of a workflow of the shop, for the runner to take up."""
        return submission.submit(self.store, shop(workflow), inputs).run

    def run(self, run: str) -> RunDefinition:
        found = self.store.get_run(WorkflowId(run))
        assert found is not None
        return found

    def until(self, run: str, *states: str) -> str:
        """Wait for a run to get there."""

        def look() -> bool:
            return self.run(run).state in states

        eventually(look, lambda: self.run(run))
        return run

    def waiting_task(self, run: str) -> str:
        """The id of the task that a run waits for, once it does."""

        def look() -> str:
            return next((task.uuid for task in self.store.get_tasks_by_workflow(WorkflowId(run))), "")

        return eventually(look, lambda: self.run(run))

    def open_gate(self, name: str) -> None:
        """What waits at that gate goes on; what was broken under that name is mended."""
        (self.gates / name).touch()


def shop(workflow: str) -> Program:
    """The program of the shop with that workflow as its entry."""
    return program_of(SHOP, f"shop.{workflow}", name="shop.afl")


def told(process: Warm, pattern: re.Pattern[str]) -> re.Match[str]:
    """What a process says once it is ready; fails with everything it said when it ends before."""

    def look() -> re.Match[str] | None:
        return pattern.search(process.said())

    return eventually(look, process.said)
