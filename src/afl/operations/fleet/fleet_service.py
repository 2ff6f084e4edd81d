"""The processes of a fleet, and what they need: a first folder, keys, settings."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from afl.fleet.agent import Agent
from afl.fleet.errors import Problem
from afl.fleet.principal.service import Principal, open_database
from afl.fleet.security import make_client_keys, make_keys
from afl.fleet.settings import FLEET_SETTINGS, FleetSettings, read_dotenv
from afl.fleet.workflow import Workflow
from afl.fleet.workflow_folder import WorkflowFolder
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.errors import InputError
from afl.kernel.setting_kinds import mask_url

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ready:
    """A principal that can be reached."""

    address: str
    log_ports: tuple[int, int]
    workflows: int
    problems: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalOptions:
    """How a principal is started."""

    with_agent: bool = False
    scheduler: bool = True
    insecure: bool = False
    limit: int | None = None


def serve_principal(
    settings: FleetSettings, options: PrincipalOptions, ready: Callable[[Ready], None]
) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. An agent in the same process finishes what it runs first."""
    return asyncio.run(_serve(settings, options, ready))


async def serve_agent(settings: FleetSettings, suffix: str | None, limit: int | None) -> int:
    """Live until drained or given up; the exit code."""
    return await Agent(settings, suffix=suffix, limit=limit).run()


async def _serve(settings: FleetSettings, options: PrincipalOptions, ready: Callable[[Ready], None]) -> int:
    with open_database(settings) as database:
        principal = Principal(settings, database, insecure=options.insecure)
        local_agent = _LocalAgent(principal, options.limit) if options.with_agent else None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, local_agent.drain if local_agent else principal.stop)

        def told() -> None:
            ready(_ready(principal))
            if local_agent is not None:
                local_agent.start()

        await principal.serve(scheduler=options.scheduler, ready=told)
        return await local_agent.ended() if local_agent is not None else 0


def _ready(principal: Principal) -> Ready:
    requests, log_port, live = principal.ports
    catalog = principal.context.catalog
    address = principal.settings.address(requests)
    return Ready(address, (log_port, live), len(catalog.workflows), len(catalog.problems))


class _LocalAgent:
    """An agent beside the principal: its end is the principal's, so that it can report its last run."""

    def __init__(self, principal: Principal, limit: int | None) -> None:
        self._principal = principal
        self._limit = limit
        self._agent: Agent | None = None
        self._living: asyncio.Task[int] | None = None

    def start(self) -> None:
        self._living = asyncio.create_task(self._live())

    def drain(self) -> None:
        """SIGTERM and SIGINT: the agent first; the second time it ends what it runs."""
        if self._agent is None:
            self._principal.stop()
        else:
            self._agent.drain()

    async def ended(self) -> int:
        if self._living is None:
            return 0
        if not self._living.done():  # the principal failed: nobody takes what the agent would report
            await cancel_and_wait([self._living])
            return 1
        return self._living.result()

    async def _live(self) -> int:
        try:
            requests, log_port, live = self._principal.ports
            reachable = replace(
                self._principal.settings,
                principal_port=requests,
                logs_listening_port=log_port,
                logs_publishing_port=live,
            )
            self._agent = Agent(reachable, limit=self._limit)
            return await self._agent.run(signals=False)
        finally:
            self._principal.stop()


EXAMPLE_ID = "example"
EXAMPLE = """# A first workflow: one task, then two side by side, then one that waits for both.
#   afl fleet run example --follow --param name=Ada
name: Example
description: Fetch something, look at it in two ways, put both together.
params:
  name: {type: string, default: world, description: Who is greeted.}
tasks:
  fetch:
    name: Fetch
    config: !Subprocess
      cmd: sh
      args: ["-c", "for n in 1 2 3; do echo page $n; sleep 0.3; done"]
  count:
    name: Count
    depends: [fetch]
    config: !Subprocess
      cmd: sh
      args: ["-c", "sleep 1; echo 3 pages"]
  check:
    name: Check
    depends: [fetch]
    retries: 1
    config: !Subprocess
      cmd: sh
      args: ["-c", "sleep 0.5; echo all pages are there"]
  report:
    name: Report
    depends: [count, check]
    config: !Subprocess {cmd: echo, args: ["hello, {{ params.name }}: done"]}
"""
_DOTENV_HEAD = """# Settings of principal, agents and clients, read from a file .env in the working directory.
# Copy this file to .env and remove the # of what you want to change; the environment wins over it.
"""


def init(folder: Path) -> list[Path]:
    """A folder with a workflow to begin with and a list of the settings; what is there stays as it is."""
    made: list[Path] = []
    files = {folder / "workflows" / f"{EXAMPLE_ID}.yml": EXAMPLE, folder / ".env.example": dotenv_example()}
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError as error:
            if not path.is_file():
                raise InputError(f"{path.parent} cannot be made: {error.strerror}") from error
            continue
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error
        made.append(path)
    return made


def dotenv_example() -> str:
    """Every setting with its default, commented out."""
    lines = [_DOTENV_HEAD]
    for row in FLEET_SETTINGS:
        lines.append(f"# {row.doc}\n# {row.variable}={row.default}\n")
    return "\n".join(lines)


def keys(folder: Path, *, client: bool = False) -> list[Path]:
    """A principal's pair of keys and a client's, or only a client's; what was made."""
    return make_client_keys(folder) if client else make_keys(folder)


def check(folder: Path) -> tuple[list[Workflow], list[Problem]]:
    """What a principal would make of a folder of workflow files."""
    files = WorkflowFolder(folder)
    files.refresh()
    return list(files.workflows.values()), list(files.problems)


@dataclass(frozen=True, slots=True)
class SettingLine:
    """A setting in force, and where its value comes from."""

    variable: str
    value: str
    source: str
    meaning: str


def setting_lines(
    settings: FleetSettings, given: Mapping[str, object], dotenv: Path = Path(".env")
) -> list[SettingLine]:
    """Every setting; `given` are those of the command line."""
    file = read_dotenv(dotenv)
    found = []
    for row in FLEET_SETTINGS:
        if given.get(row.name) is not None:
            source = "option"
        elif os.environ.get(row.variable):
            source = "environment"
        else:
            source = str(dotenv) if file.get(row.variable) else "default"
        value = mask_url(str(getattr(settings, row.name)))
        found.append(SettingLine(row.variable, value, source, row.doc))
    return found
