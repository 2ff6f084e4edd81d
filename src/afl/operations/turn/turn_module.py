"""A module with agents of turns: what it declares with `agent(...)`, and the model they think with.

model = ClaudeModel()                      # what no profile says otherwise; without one, Claude
models = {"small": ClaudeModel("...")}     # by the name in a profile's llm_config
guide = agent("guide", "You help travellers.", tools=[weather, book])
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from afl.models import Model
from afl.operations.program.agents import AgentError, load_module
from afl.turns.agents import AnyTool
from afl.turns.definition import AgentDefinition
from afl.turns.tools.local import Toolbox, near

_HOW = """an agent is declared like this:

    from afl.turns import agent

    guide = agent("guide", "You help travellers.", tools=[weather])"""


@dataclass(frozen=True)
class TurnModule:
    """What a module offers."""

    agents: tuple[AgentDefinition, ...]
    model: Model
    models: Mapping[str, Model]

    @property
    def tools(self) -> list[AnyTool]:
        """The functions of all its agents."""
        return [tool for agent in self.agents for tool in agent.functions]

    @property
    def targets(self) -> list[str]:
        return sorted({agent.worker_target for agent in self.agents})

    def without_key(self) -> dict[str, list[str]]:
        """The models that lack a key, each with the agents that cannot think for that."""
        found: dict[str, list[str]] = {}
        for agent in self.agents:
            wanted = str((agent.profile.get("llm_config") or {}).get("model", ""))
            model = self.models.get(wanted, self.model)
            if not getattr(model, "has_key", True):
                found.setdefault(model.resolve(wanted), []).append(agent.agent_id)
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

    `model` is what they think with instead of the module's own: `MODULE:NAME`, or the name of a Claude model.
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
    chosen = load_model(model) if model else _model(values.get("model"), module)
    offered = TurnModule(found, chosen, _models(values.get("models"), module))
    Toolbox(offered.tools)  # two tools of one name are told now
    return offered


def load_model(name: str) -> Model:
    """`MODULE:NAME`, or the name of a Claude model."""
    if ":" in name:
        return _model(load_module(name), name)
    return _claude(name)


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
        return _claude("")
    if not isinstance(given, Model):
        raise AgentError(f"module {module}: `model` is a {type(given).__name__}; expected a model")
    return given


def _claude(name: str) -> Model:
    """Imported when it is wanted: its client is an extra."""
    kind = importlib.import_module("afl.models.claude").ClaudeModel
    model: Model = kind(name) if name else kind()
    return model


def _models(given: Any, module: str) -> dict[str, Model]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(each, Model) for each in given.values()):
        raise AgentError(f"module {module}: `models` must be a map of models by name")
    return dict(given)
