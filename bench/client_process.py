"""`python -m bench.client_process URL`: a client that waits for the runs whose ids it is told, and prints when it knew.

With a second argument it waits for that many runs at a time, all of the store's open ones, and prints its threads, the
memory that waiting took (KiB), and the time by which it knew of all.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import threading
import time

import afl


async def one_by_one(flow: afl.AsyncClient) -> None:
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        handle = await flow.get(line.strip())
        waiting = asyncio.create_task(handle.result())
        await asyncio.sleep(0.02)  # until it waits
        print("waits", flush=True)
        await waiting
        print(time.monotonic_ns(), flush=True)


async def many(flow: afl.AsyncClient, count: int) -> None:
    handles = [await flow.get(line.run) for line in await flow.list(state="running", limit=count)]
    await asyncio.wait([asyncio.create_task(handles[0].result())], timeout=0.1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    waiting = [asyncio.create_task(handle.result()) for handle in handles]
    await asyncio.wait(waiting, timeout=1)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("ready", flush=True)
    await asyncio.gather(*waiting)
    print(threading.active_count(), after - before, time.monotonic_ns(), flush=True)


async def main(url: str, count: int) -> None:
    async with afl.connect(url) as flow:
        await (many(flow, count) if count else one_by_one(flow))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0))
