"""An agent as a process of its own: `python -m afl.fleet.agent_process`, with the settings of the environment."""

from __future__ import annotations

import asyncio
import sys

from afl.fleet.agent import Agent
from afl.fleet.settings import FleetSettings, load_fleet_settings
from afl.kernel.errors import AgentFlowError
from afl.kernel.observing import observe
from afl.kernel.settings import load_settings


async def _run(settings: FleetSettings) -> int:
    """Run an agent until it is drained or loses the principal; its exit code."""
    return await Agent(settings).run()


def main() -> int:
    try:
        settings = load_fleet_settings()
        observe(load_settings(), "afl-fleet-agent", level=settings.logging_level)
        return asyncio.run(_run(settings))
    except AgentFlowError as error:
        print(f"error[{error.code}]: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
