"""Agents in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from afl.fleet.settings import FleetSettings
from support.warm_processes import WarmPopen


class AgentProcess:
    """An agent of a principal; what it logs goes to a file in its folder."""

    def __init__(self, settings: FleetSettings, folder: Path, **environment: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        variables = {
            "CDKTR_PRINCIPAL_HOST": settings.principal_host,
            "CDKTR_PRINCIPAL_PORT": str(settings.principal_port),
            "CDKTR_APP_DATA_DIRECTORY": str(folder),
            "CDKTR_DEFAULT_ZMQ_TIMEOUT_MS": "500",
        }
        with (folder / "agent.log").open("ab") as log:
            self.process = WarmPopen(
                ["-m", "afl.fleet.agent_process"],
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**os.environ, **variables, **environment},
            )

    def kill(self) -> None:
        """SIGKILL: it cannot say goodbye."""
        self.process.kill()
        self.process.wait()

    def drain(self) -> int:
        """SIGTERM, and its exit code when it has finished."""
        self.process.terminate()
        return self.process.wait()

    @property
    def log(self) -> str:
        return (self.folder / "agent.log").read_text()


@contextmanager
def running_agent(settings: FleetSettings, folder: Path, **environment: str) -> Iterator[AgentProcess]:
    """One that runs; it is killed at the end, and its reaper ends its tasks."""
    agent = AgentProcess(settings, folder, **environment)
    try:
        yield agent
    finally:
        agent.kill()
