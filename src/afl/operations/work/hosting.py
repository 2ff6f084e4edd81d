"""Bridges in a process: the parts that event facets are sent to, started with it and stopped with it."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afl.bridges.bridge import Bridge, BridgeFactory, Host
from afl.bridges.rules import Rules
from afl.bridges.service import BridgeService
from afl.kernel.errors import InputError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.settings import SETTINGS, Settings, load_settings
from afl.language.source import CompilerInput
from afl.operations.program.sources import (
    SourceError,
    choose_workflow,
    compile_sources,
    from_text,
    read_files,
)
from afl.operations.run.runs import (
    DEFAULT_CONCURRENCY,
    RunFailed,
    RunPaused,
    RunReport,
    opened,
    start,
)
from afl.operations.work.offers import Offer, offer_of
from afl.operations.work.process_lock import take_lock
from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.inputs import check_inputs
from afl.runtime.program.policies import BRIDGES
from afl.runtime.program.program import Program
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.task_handlers.capture import capturing_logging
from afl.runtime.task_handlers.signatures import check_handlers, near_misses

if TYPE_CHECKING:
    from afl.operations.turn.turn_service import TurnModule

_log = logging.getLogger(__name__)


def run(
    source: str | Path,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Any = None,
    workflow: str | None = None,
    store: str | PersistenceAPI | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    capture_logging: bool = False,
) -> dict[str, Any]:
    """Compile and run a workflow in this process; its outputs.

    `source` is a text in AFL, or the path of a file that has one. `handlers` are functions by facet name, or a module
    (or other object) with marked functions; in a module, @answers functions and agents of turns are used as well.
    `capture_logging` also stores what handlers write to `logging` in the log of the run.
    Raises CompileError, HandlerMismatch, InputError, RunFailed or RunPaused; `RunFailed.traceback` shows which line of
    a handler failed.
    """
    compiled = compile_sources(_sources(source))
    program = choose_workflow(compiled, workflow)
    check_inputs(program, inputs or {})
    offer = offer_of(handlers)
    check_handlers(offer.handlers, program)
    for text in near_misses(offer.handlers, program):
        _log.warning("%s", text)
    with ExitStack() as stack:
        if store is None or isinstance(store, str):
            settings = load_settings({"store": store})
            store = stack.enter_context(opened(settings))
        else:
            settings = load_settings()
        bridges = stack.enter_context(hosted_for(store, settings, offer, program))
        stack.enter_context(capturing_logging(capture_logging))
        report = start(
            store,
            program,
            inputs,
            handlers=offer.handlers,
            settings=settings,
            concurrency=concurrency,
            bridges=bridges,
        )
        return _outputs(report)


def _sources(source: str | Path) -> CompilerInput:
    """A text in AFL has a brace or is longer than a line; a path has neither."""
    if not isinstance(source, str | Path):
        raise InputError(f"a source is a path or a text in AFL, got {source!r:.80}")
    if isinstance(source, str) and ("{" in source or "\n" in source):
        return from_text(source, "<string>")
    if isinstance(source, str) and not source.endswith(".afl") and not Path(source).exists():
        raise SourceError(
            f"{source[:80]!r} is neither AFL nor a file: there is no such path, and no block in braces"
        )
    return read_files([source])


def _outputs(report: RunReport) -> dict[str, Any]:
    if report.status == ExecutionStatus.COMPLETED:
        return report.outputs
    raise RunPaused(report) if report.status == ExecutionStatus.PAUSED else RunFailed(report)


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
    """Whether a run or a child run has a mixin that sends work elsewhere, at a call or in a signature."""
    return any(program.uses_of(mixin, in_children=True) for mixin in BRIDGES)


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
        self._check()
        return self

    def __exit__(self, *error: object) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._told.set)
        self._thread.join()
        self._check()

    def _check(self) -> None:
        """What ended it is raised where its block begins or ends: it may be an error of the module's own `deps`."""
        if self._problem is not None:
            raise self._problem

    def _serve(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
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
    limits = importlib.import_module("afl.operations.turn.turn_store").limits_of(settings)
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
        return agent in offer.answering and take_lock(store, f"{_LOCK}{agent}", lock_ms)

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
