"""A worker of turns: the agents that a module declares, and the process that serves them."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from afl.kernel.database import Database, Transaction, connect
from afl.kernel.errors import InputError
from afl.kernel.settings import Settings
from afl.models import Model, ScriptedModel, as_model
from afl.models.naming import is_address, is_provider
from afl.models.opening import named_model
from afl.operations.program.agents import AgentError, load_module
from afl.operations.turn.turn_store import limits_of
from afl.operations.turn.turns import Stopped, boxes_of, stop_named
from afl.operations.turn.workflow_tools import workflow_tools
from afl.turns.agents import Agents, AnyTool
from afl.turns.bus import open_bus
from afl.turns.bus.event_listener import EventListener
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.definition import AgentDefinition, establish
from afl.turns.engine import L0Engine
from afl.turns.model import TurnRef
from afl.turns.orchestration.requests import KINDS
from afl.turns.resources import get_tools
from afl.turns.tools.local import Toolbox, near
from afl.turns.tools.submit import SUBMIT_RESULT
from afl.turns.tools.workflow_tool import WorkflowTool
from afl.turns.worker.services import WorkerLimits
from afl.turns.worker.worker import Worker

_log = logging.getLogger("afl.turns")
_HOW = """an agent is declared like this:

    from afl.turns import agent

    guide = agent("guide", "You help travelers.", tools=[weather])"""


@dataclass(frozen=True)
class TurnModule:
    """What a module offers."""

    agents: tuple[AgentDefinition, ...]
    model: Model
    models: Mapping[str, Model]
    deps: Any = None  # what its tools and prompt functions need

    @property
    def tools(self) -> list[AnyTool]:
        """The functions of all its agents."""
        return [tool for agent in self.agents for tool in agent.functions]

    @property
    def workflows(self) -> list[WorkflowTool]:
        """The workflows that its agents may start."""
        return list(dict.fromkeys(tool for agent in self.agents for tool in agent.workflows))

    @property
    def targets(self) -> list[str]:
        return sorted({agent.worker_target for agent in self.agents})

    def unavailable(self) -> dict[str, list[str]]:
        """Why models cannot be asked, such as a key that is not set, each with the agents whose turns fail for that."""
        found: dict[str, list[str]] = {}
        for agent in self.agents:
            wanted = str((agent.profile.get("llm_config") or {}).get("model", ""))
            own = self.models.get(wanted)
            model, name = (self.model, wanted) if own is None else (own, "")
            check = getattr(model, "why_unavailable", None)
            why = check(name) if check is not None and "served" not in agent.profile else ""
            if why:
                found.setdefault(why, []).append(agent.agent_id)
        return found

    def agent(self, name: str = "") -> AgentDefinition:
        """The agent of that name, or the only one."""
        names = [agent.agent_id for agent in self.agents]
        if not name and len(names) > 1:
            raise AgentError(f"the module has several agents: {', '.join(names)}; say which")
        for agent in self.agents:
            if name in ("", agent.agent_id):
                return agent
        raise AgentError(f"the module has no agent {name!r}; {near(name, names)}")


def load_turn_module(module: str, model: str = "") -> TurnModule:
    """The agents of a module (`agents.py`, `news.agents`), or of one attribute of it; AgentError says what is wrong.

    `model` is what they think with instead of the module's own: `MODULE:NAME`, or the name of a model.
    """
    return turn_module_of(load_module(module), module, model)


def turn_module_of(source: Any, module: str, model: str = "") -> TurnModule:
    """As `load_turn_module`, of what was imported already; `module` is its name."""
    found = tuple({agent.agent_id: agent for agent in _definitions(source)}.values())
    if not found:
        raise AgentError(f"module {module} declares no agents; {_HOW}")
    if len(found) != len(list(_definitions(source))):
        raise AgentError(f"module {module} declares two agents of one name")
    values = vars(source) if isinstance(source, ModuleType) else {}
    own = values.get("model")
    if own is None and all("served" in agent.profile for agent in found):
        own = ScriptedModel([])  # each of them has its own
    chosen = load_model(model) if model else _model(own, module)
    offered = TurnModule(found, chosen, _models(values.get("models"), module), values.get("deps"))
    Toolbox(offered.tools)  # two tools of one name are told now
    return offered


def load_model(name: str) -> Model:
    """`MODULE:NAME`, or the name of a model (`openai:gpt-5-mini`, an address, the name of a Claude model)."""
    if is_address(name) or ":" not in name or is_provider(name.partition(":")[0]):
        return named_model(name)
    return _model(load_module(name), name)


def _definitions(source: Any) -> Iterator[AgentDefinition]:
    """What stands at the top level, or in a list there; the same one under two names is one."""
    values = list(vars(source).values()) if isinstance(source, ModuleType) else [source]
    seen: set[int] = set()
    for value in values:
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, AgentDefinition) and id(each) not in seen:
                seen.add(id(each))
                yield each


def _model(given: Any, module: str) -> Model:
    if given is None:
        return named_model("medium")
    try:
        return as_model(given)
    except InputError as error:
        raise AgentError(f"module {module}: {error}") from error


def _models(given: Any, module: str) -> dict[str, Model]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise AgentError(f"module {module}: `models` must be a map of models by name")
    return {name: _model(each, module) for name, each in given.items()}


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


def unprovided_tools(agents: Agents, module: TurnModule, tx: Transaction) -> list[str]:
    """Of tools that agents have by name: for each that nothing provides, who wants it and what is meant perhaps."""
    rows = [row.tool_name for row in get_tools(tx, agents.project)]
    hosted = [tool.name for tool in (*agents.toolbox, *module.workflows)]
    known = {*rows, *hosted, *KINDS, SUBMIT_RESULT}
    return [
        f"agent {agent.agent_id} has no tool {tool!r}: nothing provides it; {near(tool, known)}"
        for agent in module.agents
        if "mcp" not in agent.profile  # what its servers have is known once they are connected
        for tool in _named_tools(agent)
        if tool not in known
    ]


def _named_tools(agent: AgentDefinition) -> list[str]:
    named = [tool for tool in agent.tools or () if isinstance(tool, str)]
    return list(dict.fromkeys([*named, *(agent.profile.get("must_end_with") or ())]))


@asynccontextmanager
async def staffed(
    settings: Settings, module: TurnModule, options: WorkerOptions, shared: Database | None = None
) -> AsyncIterator[Agents]:
    """The agents of a module, established in the store, with a worker in this process.

    The tools are there before the first turn is taken; the worker ends first, with `grace` for what is under way. A
    database that is `shared` is the store, and stays open.
    """
    async with AsyncExitStack() as opened:
        if shared is not None:
            database = shared
        else:
            database = await asyncio.to_thread(connect, settings.store)
            opened.push_async_callback(asyncio.to_thread, database.close)
        engine = L0Engine(database, open_bus(database, settings.bus), limits_of(settings), settings.blobs)
        opened.push_async_callback(engine.close)
        toolbox = Toolbox(module.tools)
        toolbox.mcp.settings = settings
        await engine.start()
        agents = Agents(engine, settings.project, toolbox)
        opened.push_async_callback(agents.close)
        await agents.listen()
        await establish(agents, module.agents)
        for missing in await asyncio.to_thread(database.read, partial(unprovided_tools, agents, module)):
            _log.warning("%s", missing)
        worker = Worker(
            engine,
            module.model,
            tools=toolbox,
            targets=module.targets,
            limits=options.limits,
            models=module.models,
            deps=module.deps,
            poll_seconds=settings.poll_interval_ms / 1000,
        )
        await worker.start()
        opened.push_async_callback(worker.stop, options.grace)
        await opened.enter_async_context(workflow_tools(agents, module.workflows))
        yield agents


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
