"""`python -m bench.turn_process STORE MODEL`: a worker of turns with the agent `clerk`, whose model is there."""

from __future__ import annotations

import asyncio
import sys

from afl.turns import open_agents


async def main(store: str, model: str) -> None:
    async with open_agents(store, model=model) as agents:
        await agents.define("clerk", "You answer.")
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
