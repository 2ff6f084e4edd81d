"""Turns: agents that converse and call tools, with every step in a store.

    guide = agent("guide", "You help travelers.", tools=[weather, book])     # for `afl turns chat`, `afl turns worker`

    async with open_agents(model=ClaudeModel()) as agents:                    # for programs
        await agents.define("guide", "You help travelers.", tools=[weather, book])
        print((await agents.ask("guide", "Is it warm in Oslo?")).text)

The protocol (docs/turns-protocol.md) is one level below: L0Engine has its primitives, `transitions` what a turn goes
through, Worker runs turns, ToolService answers `cmd.tool.*` in a process of its own.
"""

from afl.turns.agents import Agents, Conversation, open_agents
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.definition import AgentDefinition, agent
from afl.turns.engine import L0Engine
from afl.turns.model import Limits, TurnRef
from afl.turns.tools.local import ToolCall, current_call, local_tool
from afl.turns.tools.service import ToolService
from afl.turns.worker.services import WorkerLimits
from afl.turns.worker.worker import Worker

__all__ = [
    "AgentDefinition",
    "Agents",
    "Conversation",
    "Delivered",
    "L0Engine",
    "Limits",
    "ToolCall",
    "ToolService",
    "TurnRef",
    "Worker",
    "WorkerLimits",
    "agent",
    "current_call",
    "local_tool",
    "open_agents",
]
