"""What callers ask of the primitives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from afl.turns.model import TurnRef
from afl.turns.statuses import DepthPolicy, EdgePhase, MessageType


@dataclass(frozen=True, slots=True)
class SpawnIntent:
    """A new turn of an agent.

    The payload of a `turn` is {profile_box_id?, context_box_id, output_box_id, display_name?, metadata?,
    runtime_config?} (the profile is the roster's when none is given), that of a `ui_action` {action_id, tool_name,
    args, message_id?, metadata?}.
    """

    target_agent_id: str
    payload: Mapping[str, Any]
    message_type: MessageType = MessageType.TURN
    correlation_id: str | None = None
    depth_policy: DepthPolicy = DepthPolicy.DESCEND


@dataclass(frozen=True, slots=True)
class AddressIntent:
    """A message to a turn that exists: `stop`."""

    turn: TurnRef
    message_type: MessageType
    payload: Mapping[str, Any] = field(default_factory=dict)
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReportIntent:
    """The result of a tool call (`correlation_id`), or its time running out.

    The payload is {status, after_execution, tool_result_card_id}.
    """

    turn: TurnRef
    payload: Mapping[str, Any]
    correlation_id: str
    message_type: MessageType = MessageType.TOOL_RESULT


@dataclass(frozen=True, slots=True)
class JoinIntent:
    """That a turn waits for others (request), or has them (response)."""

    correlation_id: str
    phase: EdgePhase
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandIntent:
    """A command to a tool: its payload is {tool_name, after_execution, tool_call_card_id}."""

    subject: str
    payload: Mapping[str, Any]
    correlation_id: str  # the tool call's id
    tool_name: str = ""


@dataclass(frozen=True, slots=True)
class ToolWait:
    """One tool call that a turn suspends on. Without a subject nothing is published: the worker runs it itself."""

    tool_call_id: str
    tool_name: str
    step_id: str
    deadline_ms: int  # from now, on the store's clock
    subject: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
