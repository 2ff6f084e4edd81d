"""What a process knows of an agent of Pydantic AI that it serves."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from afl.kernel.errors import InputError

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent

PYDANTIC_AI = "pydantic_ai"  # in a profile: who runs the agent's turns


@dataclass(frozen=True)
class ServedAgent:
    """An agent with its model, tools, output type and hooks; `options` are for each of its runs."""

    agent_id: str
    agent: AbstractAgent[Any, Any]
    deps: Any = None
    make_deps: Callable[[], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    async def new_deps(self) -> Any:
        """The dependencies of one run."""
        if self.make_deps is None:
            return self.deps
        made = self.make_deps()
        return await made if inspect.isawaitable(made) else made


def served_agent(
    agent: Any, name: str, deps: Any, make_deps: Callable[[], Any] | None, options: Mapping[str, Any]
) -> ServedAgent:
    """InputError if it is no agent of Pydantic AI, or has no name or no model."""
    module = sys.modules.get("pydantic_ai.agent")  # who has an agent has imported it
    if module is None or not isinstance(agent, module.AbstractAgent):
        raise InputError(f"serve() takes an agent of Pydantic AI, and not a {type(agent).__name__}")
    called = name or agent.name
    if not called:
        raise InputError("the agent has no name; give it one: serve(agent, name=...)")
    if getattr(agent, "model", None) is None and "model" not in options:
        raise InputError(
            f"agent {called} has no model; give it one: Agent(model, ...), or serve(..., model=...)"
        )
    return ServedAgent(called, agent, deps, make_deps, dict(options))
