"""What a process hosts besides handlers: bridges to the other parts, and the agents that its modules declare.

Each bridge is opened when there is a first step for it, so hosting one costs nothing where it is not used.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from afl.bridges.bridge import Bridge, BridgeFactory, Host
from afl.bridges.rules import Rules
from afl.bridges.service import BridgeService
from afl.kernel.errors import AgentFlowError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.presence import Life
from afl.kernel.settings import SETTINGS, Settings
from afl.operations.work.offers import Offer
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.policies import BRIDGES, NAMESPACE
from afl.runtime.program.program import Program
from afl.runtime.stores.sql_store import SqlStore

if TYPE_CHECKING:
    from afl.operations.turn.turn_module import TurnModule

_LOCK = "afl:message:"
_DEFAULT_REDIS = next(row.default for row in SETTINGS if row.name == "redis")


@contextmanager
def hosted(
    store: PersistenceAPI, settings: Settings, offer: Offer, *, sweeps: bool = False
) -> Iterator[BridgeService]:
    """Bridges and agents at work, for a while. `sweeps`: nobody else in this process looks after timeouts."""
    with ExitStack() as stack:
        for module in offer.agents:
            stack.enter_context(TurnStaff(store, settings, module))
        yield stack.enter_context(bridge_service(store, settings, offer, sweeps=sweeps))


@contextmanager
def hosted_for(
    store: PersistenceAPI, settings: Settings, offer: Offer, program: Program
) -> Iterator[BridgeService | None]:
    """As `hosted`, for a process that works on one program alone: None if none of its steps goes elsewhere."""
    if not offer.agents and not settings.bridges and not goes_elsewhere(program):
        yield None
        return
    with hosted(store, settings, offer, sweeps=True) as service:
        yield service


def goes_elsewhere(program: Program) -> bool:
    """Whether a program has a mixin that sends work elsewhere, at a call or in a signature."""
    return any(f'"target":"{NAMESPACE}{mixin}"' in program.text for mixin in BRIDGES)


def bridge_service(
    store: PersistenceAPI, settings: Settings, offer: Offer, *, sweeps: bool = False
) -> BridgeService:
    """The bridges that the settings and the installed extras allow; it has not started."""
    on_server = uses_redis(settings)
    factories: dict[str, BridgeFactory] = {}
    if isinstance(store, SqlStore):
        factories["agent"] = lambda host: _agent_bridge(host, store, settings)
    if _installed("zmq"):
        factories["fleet"] = _fleet_bridge
    if _installed("pydantic") and (_installed("redis") or not on_server):
        factories["message"] = lambda host: _message_bridge(host, store, settings, offer)
    return BridgeService(
        Evaluator(store),
        factories,
        rules=Rules.of(settings.bridges),
        task_list=settings.task_list,
        poll_seconds=settings.poll_interval_ms / 1000,
        eager=["message"] if on_server and offer.answering else [],
        sweeps=sweeps,
    )


def hosted_names(service: BridgeService, settings: Settings, offer: Offer) -> list[str]:
    """How a server record says what bridges it hosts: `afl:agent`, and who answers only in this process."""
    names = [f"afl:{kind}" for kind in service.kinds]
    return names if uses_redis(settings) else [*names, *(f"{_LOCK}{agent}" for agent in offer.answering)]


def uses_redis(settings: Settings) -> bool:
    """Whether messages go by a server; else they stay in the process."""
    if settings.messages == "auto":
        return bool(settings.redis != _DEFAULT_REDIS)
    return settings.messages == "redis"


class TurnStaff:
    """A worker of turns for the agents of a module, on a thread with a loop of its own."""

    def __init__(self, store: PersistenceAPI, settings: Settings, module: TurnModule) -> None:
        self._settings = settings
        self._module = module
        self._database = store.database if isinstance(store, SqlStore) else None
        self._up = threading.Event()
        self._problem: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()
        self._thread = JoinableThread(self._serve, "afl-turns")

    def __enter__(self) -> TurnStaff:
        self._thread.start()
        self._up.wait()
        if self._problem is not None:
            raise self._problem
        return self

    def __exit__(self, *error: object) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._told.set)
        self._thread.join()

    def _serve(self) -> None:
        try:
            asyncio.run(self._work())
        except AgentFlowError as error:
            self._problem = error
        finally:
            self._up.set()

    async def _work(self) -> None:
        service = importlib.import_module("afl.operations.turn.turn_service")
        self._loop = asyncio.get_running_loop()
        async with service.staffed(self._settings, self._module, service.WorkerOptions(), self._database):
            self._up.set()
            await self._told.wait()


def _agent_bridge(host: Host, store: SqlStore, settings: Settings) -> Bridge:
    module = importlib.import_module("afl.bridges.agent")
    limits = importlib.import_module("afl.operations.turn.turns").limits_of(settings)
    place = module.TurnsConnection(store.database, settings.bus, settings.project, limits)
    return _bridge(module.AgentBridge(host, place))


def _fleet_bridge(host: Host) -> Bridge:
    settings = importlib.import_module("afl.fleet.settings").load_fleet_settings()
    return _bridge(importlib.import_module("afl.bridges.fleet").FleetBridge(host, settings))


def _message_bridge(host: Host, store: PersistenceAPI, settings: Settings, offer: Offer) -> Bridge:
    module = importlib.import_module("afl.bridges.message")
    on_server = uses_redis(settings)
    coordinator, done = module.server(settings.redis) if on_server else (module.memory(), None)
    lock_ms = max(settings.lease_ms, 3 * settings.poll_interval_ms)

    def mine(agent: str) -> bool:
        """Messages in memory reach nobody else, so one of the processes that can answer does."""
        key = f"{_LOCK}{agent}"
        if agent not in offer.answering:
            return False
        holder = store.check_lock(key)
        if holder is not None and store.life(holder.owner) is Life.DEAD:
            store.release_lock(key, owner=holder.owner)
        return store.acquire_lock(key, lock_ms, owner=store.owner_id)

    return _bridge(
        module.MessageBridge(
            host,
            coordinator,
            project=settings.project,
            answering=offer.answering,
            visible_seconds=settings.lease_ms / 1000,
            mine=None if on_server else mine,
            done=done,
        )
    )


def _bridge(made: Any) -> Bridge:
    assert isinstance(made, Bridge)
    return made


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
