"""What everything a worker does has in common: the store, the model, its tools, its limits and its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from afl.kernel.backoff import Backoff
from afl.kernel.database import Transaction
from afl.models import PRICES, Model, Prices, Reply, Request, model
from afl.models.model import OnText
from afl.turns.engine import L0Engine
from afl.turns.tools.calling import Caller
from afl.turns.tools.local import Toolbox
from afl.turns.worker.limits import WorkerLimits
from afl.turns.worker.scene import Scenes
from afl.turns.worker.threads import Threads

T = TypeVar("T")
AGAIN = Backoff(0.05, cap=2.0)  # while the store is away


@dataclass
class Desk:
    """`owner` is this worker's name in the store; another worker of the same process has another."""

    engine: L0Engine
    model: Model
    toolbox: Toolbox
    owner: str
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    models: Mapping[str, Model] = field(default_factory=dict)  # by the name that a profile gives
    prices: Prices = PRICES

    def __post_init__(self) -> None:
        self.scenes = Scenes(self.toolbox)
        self.caller = Caller()
        self._thinking = Threads(self.limits.concurrency, "afl-model")

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """A transaction; what it left to publish is the caller's."""
        return await self.engine.database.run("write", work)

    async def transition(self, work: Callable[[Transaction], T], *, alone: bool) -> T:
        """A transition of a head; `alone`: with nothing else in its transaction, which is faster."""
        return await (self.engine.alone(work) if alone else self.write(work))

    def model_of(self, name: str) -> Model:
        """The model that answers requests of this name: one given for it, else the worker's own."""
        return self.models.get(name, self.model)

    async def complete(self, request: Request, on_text: OnText | None) -> Reply:
        """Call the model on a thread of its own; `on_text` is called in the loop."""
        loop = asyncio.get_running_loop()
        relay = None if on_text is None else lambda text: _relay(loop, on_text, text)
        call = partial(model.complete, self.model_of(request.model), request, relay, self.prices)
        reply: Reply = await self._thinking.call(call, leaving=True)
        return reply

    def close(self) -> None:
        """A model that is still called is left alone: its answer comes too late for anybody."""
        self.caller.close()
        self._thinking.close(wait=False)


def _relay(loop: asyncio.AbstractEventLoop, on_text: OnText, text: str) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(on_text, text)
