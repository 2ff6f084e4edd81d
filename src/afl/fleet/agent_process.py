"""An agent as a process of its own: `python -m afl.fleet.agent_process`, with the settings of the environment."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from afl.fleet.agent import Agent
from afl.fleet.settings import FleetSettings, load_fleet_settings
from afl.kernel.errors import AgentFlowError
from afl.kernel.observing import observe
from afl.kernel.settings import load_settings


def run_agent(
    settings: FleetSettings,
    *,
    suffix: str | None = None,
    limit: int | None = None,
    folder: Path | None = None,
) -> int:
    """Run an agent until it is drained or loses the principal; its exit code."""

    async def live() -> int:
        return await Agent(settings, suffix=suffix, limit=limit, folder=folder).run()

    return asyncio.run(live())


def main() -> int:
    try:
        settings = load_fleet_settings()
        observe(load_settings(), "afl-fleet-agent", level=settings.logging_level)
        return run_agent(settings)
    except AgentFlowError as error:
        print(f"error[{error.code}]: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
