"""What all parts of a worker share: the engine, the model, the tools, the limits and the worker's name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from afl.kernel.backoff import Backoff
from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.kernel.thread_pool import ThreadPool
from afl.kernel.unraisable import failing
from afl.models import PRICES, Model, Prices, Reply, Request
from afl.models.conversation import CORRECTIONS
from afl.models.model import OnText, complete
from afl.turns.engine import L0Engine
from afl.turns.outages import across_outages
from afl.turns.tools.dependencies import Dependencies
from afl.turns.tools.local import THREADS, Toolbox, ToolCaller
from afl.turns.worker.text_writer import TextWriter
from afl.turns.worker.turn_state import TurnStateLoader

if TYPE_CHECKING:
    from afl.turns.mcp.sessions import McpSessions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """The limits of a worker. Times are in seconds. The limits of the turns themselves are `model.Limits`."""

    max_steps: int = 8
    suspend_timeout: float = 30.0
    max_defers: int = 3
    defer: Backoff = field(default_factory=lambda: Backoff(1.0, 2.0, 30.0))
    claim: int = 20
    concurrency: int = 64
    corrections: int = CORRECTIONS  # how often a model may correct a result that lacks required fields

    def __post_init__(self) -> None:
        for name in ("max_steps", "claim", "concurrency"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)!r}; expected at least 1")
        if self.corrections < 0:
            raise InputError(f"corrections is {self.corrections!r}; expected at least 0")
        if not self.suspend_timeout > 0:
            raise InputError(f"suspend_timeout is {self.suspend_timeout!r}; expected seconds, more than 0")

    def wait_seconds(self, tools: Iterable[float | None]) -> float:
        """How long a turn may stay suspended on tools with these timeouts: as long as the slowest."""
        return max([self.suspend_timeout, *(each for each in tools if each is not None)])

    def steps_left(self, done: int) -> int:
        return max(0, self.max_steps - done)


@dataclass
class WorkerServices:
    """`owner` is this worker's name in the store; another worker of the same process has another."""

    engine: L0Engine
    model: Model
    toolbox: Toolbox
    owner: str
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    models: Mapping[str, Model] = field(default_factory=dict)  # by the name that a profile gives
    prices: Prices = PRICES
    deps: Dependencies = field(default_factory=Dependencies)

    def __post_init__(self) -> None:
        self.states = TurnStateLoader(self.toolbox)
        self.tools = ToolCaller(max(THREADS, self.limits.concurrency), self.deps, self.engine.content)
        self.texts = TextWriter(self.engine)
        self._model_threads = ThreadPool("afl-model")

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """A transaction; the caller publishes its results."""
        return await self.engine.database.run("write", work)

    async def store(self, turn_id: str, work: Callable[[Transaction], T]) -> T:
        """A transaction with what cannot be had again; see `across_outages`."""
        return await across_outages(f"turn {turn_id}", lambda: self.write(work))

    def chosen(self, request: Request) -> tuple[Model, str]:
        """The model that a request is for, and what that model calls it."""
        own = self.models.get(request.model)
        return (self.model, request.model) if own is None else (own, "")

    async def complete(self, request: Request, on_text: OnText | None) -> Reply:
        """Call the model on a thread, with the bytes of all files; `on_text` is called in the event loop.

        No call waits for another, and they are on daemon threads: after a cancellation the call is abandoned, and the
        end of the process does not wait for it.
        """
        request = await self.engine.content.loaded(request)
        loop = asyncio.get_running_loop()
        relay = None if on_text is None else partial(_call_in_loop, loop, on_text)
        model, name = self.chosen(request)
        call = partial(complete, model, replace(request, model=name), relay, self.prices)
        future: Future[Reply] = Future()
        context = copy_context()

        def run() -> None:
            future.set_running_or_notify_cancel()
            try:
                future.set_result(context.run(failing(call)))
            except Exception as error:
                future.set_exception(error)

        self._model_threads.run(run)
        return await asyncio.wrap_future(future)

    @cached_property
    def mcp(self) -> McpSessions:
        """Sessions with MCP servers; the library is imported when an agent has one."""
        from afl.turns.mcp.sessions import McpSessions  # noqa: PLC0415  needs an extra

        return McpSessions(self.toolbox.mcp)

    async def close_mcp(self) -> None:
        if "mcp" in self.__dict__:
            await self.mcp.close()

    def close(self) -> None:
        self.tools.close()
        self.texts.close()
        self._model_threads.shutdown(wait=False)


def _call_in_loop(loop: asyncio.AbstractEventLoop, on_text: OnText, text: str) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(on_text, text)
