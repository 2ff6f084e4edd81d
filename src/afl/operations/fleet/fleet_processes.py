"""A principal and an agent as processes that a person starts; both in one for a start."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace

from afl.fleet.agent import Agent
from afl.fleet.principal.service import Principal, open_database
from afl.fleet.settings import FleetSettings
from afl.kernel.cancelling import cancel_and_wait

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
        companion = _Companion(principal, options.limit) if options.with_agent else None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, companion.drain if companion else principal.stop)

        def told() -> None:
            ready(_ready(principal))
            if companion is not None:
                companion.start()

        await principal.serve(scheduler=options.scheduler, ready=told)
        return await companion.ended() if companion is not None else 0


def _ready(principal: Principal) -> Ready:
    requests, intake, live = principal.ports
    catalogue = principal.context.catalogue
    address = principal.settings.address(requests)
    return Ready(address, (intake, live), len(catalogue.workflows), len(catalogue.problems))


class _Companion:
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
            requests, intake, live = self._principal.ports
            reachable = replace(
                self._principal.settings,
                principal_port=requests,
                logs_listening_port=intake,
                logs_publishing_port=live,
            )
            self._agent = Agent(reachable, limit=self._limit)
            return await self._agent.run(signals=False)
        finally:
            self._principal.stop()
