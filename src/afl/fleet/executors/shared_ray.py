"""The Ray cluster of an agent: one for all tasks that name none, since starting one takes half a minute."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping

from afl.kernel.errors import ServerError

_HOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ray_holder.py")
_START_SECONDS = 180.0
_END_SECONDS = 10.0
_ADDRESS = "RAY_ADDRESS"


class SharedRay:
    """Started when a task first needs it, and again if it has ended; stopped by `close`, or with this process."""

    def __init__(self) -> None:
        self._clusters: dict[tuple[tuple[str, str], ...], _Cluster] = {}

    async def address(self, environ: Mapping[str, str]) -> str | None:
        """The address of the cluster for a task with these variables; None when RAY_ADDRESS sets it.

        Tasks with other variables of Ray's (tokens, for instance) have another cluster.
        """
        if environ.get(_ADDRESS):
            return None
        key = tuple(sorted((name, value) for name, value in environ.items() if name.startswith("RAY_")))
        cluster = self._clusters.get(key)
        if cluster is None or cluster.is_gone:
            cluster = self._clusters[key] = _Cluster(environ)
        # A task that is canceled meanwhile must not take the cluster from the others.
        return await asyncio.shield(cluster.starting)

    async def close(self) -> None:
        clusters, self._clusters = self._clusters, {}
        await asyncio.gather(*(cluster.close() for cluster in clusters.values()))


class _Cluster:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._process: Process | None = None
        self.starting = asyncio.create_task(self._start(environ))

    @property
    def is_gone(self) -> bool:
        if not self.starting.done():
            return False
        failed = self.starting.cancelled() or self.starting.exception() is not None
        return failed or self._process is None or self._process.returncode is not None

    async def close(self) -> None:
        self.starting.cancel()
        await asyncio.wait([self.starting])
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _start(self, environ: Mapping[str, str]) -> str:
        # A session of its own: signals of a terminal to the agent's group must not reach it.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            _HOLDER,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environ,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_START_SECONDS):
                line = (await self._process.stdout.readline()).decode("utf-8", "replace")
        except TimeoutError:
            self._process.kill()
            raise ServerError(f"no Ray cluster started within {_START_SECONDS:g} s") from None
        word, _, rest = line.strip().partition(" ")
        if word != "at":
            raise ServerError(f"no Ray cluster could be started: {rest or 'its process ended'}")
        return rest
