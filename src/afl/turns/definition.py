"""Agents as declarations: what a module says at its top level, and a worker or a chat makes true in a store.

guide = agent("guide", "You help travelers.", tools=[weather, book])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.models.result_type import result_type
from afl.turns.agents import Agents, AnyTool, Prompt
from afl.turns.definition_checks import check_definition, read_tools
from afl.turns.mcp.server import McpServer
from afl.turns.served.agent import served_agent
from afl.turns.tools.local import LocalTool
from afl.turns.tools.workflow_tool import WorkflowTool
from afl.turns.worker.worker import TARGET


@dataclass(frozen=True)
class AgentDefinition:
    """An agent that is to be. `tools` None: all there are."""

    agent_id: str
    prompt: Prompt = ""
    tools: tuple[LocalTool | WorkflowTool | str, ...] | None = ()
    worker_target: str = TARGET
    tags: tuple[str, ...] = ()
    profile: Mapping[str, Any] = field(default_factory=dict)

    @property
    def functions(self) -> list[LocalTool]:
        """Those of its tools that are functions of this process."""
        return [tool for tool in self.tools or () if isinstance(tool, LocalTool)]

    @property
    def workflows(self) -> list[WorkflowTool]:
        """Those of its tools that are workflows."""
        return [tool for tool in self.tools or () if isinstance(tool, WorkflowTool)]


def agent(
    agent_id: str,
    prompt: Prompt = "",
    *,
    tools: Iterable[AnyTool | WorkflowTool | str] | None = (),
    worker_target: str = TARGET,
    tags: Sequence[str] = (),
    result: Any = None,
    mcp: Iterable[McpServer | str] = (),
    **profile: Any,
) -> AgentDefinition:
    """Declare an agent. `result`: the type that its results have: a pydantic model, a dataclass or a TypedDict.

    `mcp`: MCP servers whose tools it has, or names of configured ones.
    What else a profile may have is given by name: must_end_with, llm_config, delegation_policy ...
    """
    check_definition(agent_id, prompt, profile)
    listed = read_tools(agent_id, tools)
    if result is not None:
        profile["result"] = result_type(result)  # what is no type is told now
    if servers := tuple(mcp):
        profile["mcp"] = servers
    return AgentDefinition(
        agent_id, prompt, None if listed is None else tuple(listed), worker_target, tuple(tags), profile
    )


def serve(
    agent: Any,
    name: str = "",
    *,
    deps: Any = None,
    make_deps: Callable[[], Any] | None = None,
    **options: Any,
) -> AgentDefinition:
    """Declare an agent of Pydantic AI, whose turns then survive the process that runs them.

    Each request of its model and each call of its tools is stored; whoever takes a turn over runs the agent again, and
    what is stored is answered from the store. `name`: its id, if not the agent's own name. `deps`: its dependencies, or
    `make_deps`: a function that makes those of each run. What else `Agent.run` takes is given by name.
    """
    served = served_agent(agent, name, deps, make_deps, options)
    return AgentDefinition(served.agent_id, profile={"served": served})


async def establish(agents: Agents, definitions: Iterable[AgentDefinition]) -> None:
    """Enter them into the project."""
    for each in definitions:
        await agents.define(
            each.agent_id,
            each.prompt,
            tools=each.tools,
            worker_target=each.worker_target,
            tags=each.tags,
            **each.profile,
        )
