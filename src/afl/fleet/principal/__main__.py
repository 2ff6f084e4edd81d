"""`python -m afl.fleet.principal`: a principal with the settings of the environment."""

from __future__ import annotations

import asyncio
import sys

from afl.fleet.principal.service import run_principal
from afl.fleet.settings import load_fleet_settings
from afl.kernel.errors import AgentFlowError
from afl.kernel.observing import observe
from afl.kernel.settings import load_settings


def main() -> int:
    try:
        settings = load_fleet_settings()
        observe(load_settings(), "afl-fleet-principal", level=settings.logging_level)
        asyncio.run(run_principal(settings))
    except AgentFlowError as error:
        print(f"error[{error.code}]: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
