"""A worker of turns as a service, and a conversation with an agent in one process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from afl.kernel.database import Database, connect
from afl.kernel.settings import Settings
from afl.operations.turn.turn_module import TurnModule
from afl.operations.turn.turns import Stopped, boxes_of, limits_of, stop_named
from afl.turns.agents import Agents
from afl.turns.bus import open_bus
from afl.turns.bus.event_listener import EventListener
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.definition import establish
from afl.turns.engine import L0Engine
from afl.turns.model import TurnRef
from afl.turns.tools.local import Toolbox
from afl.turns.worker.services import WorkerLimits
from afl.turns.worker.worker import Worker

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a person may say about a worker, beyond the settings; times are seconds."""

    concurrency: int = 64
    max_steps: int = 8
    suspend_timeout: float = 30.0
    grace: float = 30.0

    @property
    def limits(self) -> WorkerLimits:
        return WorkerLimits(
            max_steps=self.max_steps, suspend_timeout=self.suspend_timeout, concurrency=self.concurrency
        )


@asynccontextmanager
async def staffed(
    settings: Settings, module: TurnModule, options: WorkerOptions, shared: Database | None = None
) -> AsyncIterator[Agents]:
    """The agents of a module, established in the store, with a worker in this process.

    The tools are there before the first turn is taken; the worker ends first, with `grace` for what is under way. A
    database that is `shared` is the store, and stays open.
    """
    database = shared if shared is not None else await asyncio.to_thread(connect, settings.store)
    engine = L0Engine(database, open_bus(database, settings.bus), limits_of(settings))
    toolbox = Toolbox(module.tools)
    try:
        await engine.start()
        agents = Agents(engine, settings.project, toolbox)
        await agents.listen()
        await establish(agents, module.agents)
        worker = Worker(
            engine,
            module.model,
            tools=toolbox,
            targets=module.targets,
            limits=options.limits,
            models=module.models,
            poll_seconds=settings.poll_interval_ms / 1000,
        )
        await worker.start()
        try:
            yield agents
        finally:
            await worker.stop(options.grace)
            await agents.close()
    finally:
        await engine.close()
        if shared is None:
            await asyncio.to_thread(database.close)


def serve(
    settings: Settings, module: TurnModule, options: WorkerOptions, started: Callable[[], None]
) -> None:
    """Work on the turns of a module's agents until SIGTERM or SIGINT."""

    async def working() -> None:
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, told.set)
        async with staffed(settings, module, options):
            started()
            await told.wait()

    asyncio.run(working())


class Chat:
    """One conversation with an agent: each turn reads what was said before. `after`: going on from an earlier one."""

    def __init__(self, agents: Agents, agent_id: str, after: str = "") -> None:
        self._agents = agents
        self._agent_id = agent_id
        self._after = after
        self._turn: TurnRef | None = None
        self._listener = EventListener(agents.engine, agents.project)

    async def __aenter__(self) -> Chat:
        await self._listener.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._listener.close()

    async def say(self, text: str, on_text: Callable[[str], None] | None = None) -> Delivered:
        """The agent's answer; `on_text` hears its words while they come."""
        history = await boxes_of(self._agents, self._after)
        with self._listener.text_of(self._agent_id, on_text):
            self._turn = await self._agents.send(self._agent_id, text, history=history)
            self._after = self._turn.agent_turn_id
            try:
                return await self._agents.wait(self._turn)
            finally:
                self._turn = None

    async def stop(self) -> Stopped | None:
        """End the turn under way; None when there is none."""
        if self._turn is None:
            return None
        return await stop_named(self._agents, self._turn.agent_turn_id, "stopped in the chat")
