"""Headers: who speaks, of which turn, how deep. Identity stands here and in columns, not in payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.turns.errors import ErrorCode, ProtocolViolation

PROJECT = "CG-Project-Id"
CHANNEL = "CG-Channel-Id"
AGENT = "CG-Agent-Id"
TURN = "CG-Turn-Id"
EPOCH = "CG-Turn-Epoch"
DEPTH = "CG-Recursion-Depth"
STEP = "CG-Step-Id"
TOOL_CALL = "CG-Tool-Call-Id"
PARENT_AGENT = "CG-Parent-Agent-Id"
PARENT_TURN = "CG-Parent-Turn-Id"
PARENT_STEP = "CG-Parent-Step-Id"
PARENT_TRACE = "CG-Parent-Traceparent"
TRACE = "traceparent"
TRACE_STATE = "tracestate"
TIMESTAMP = "CG-Timestamp"
VERSION = "CG-Version"
MESSAGE_TYPE = "CG-Msg-Type"
SENDER = "CG-Sender"
BUS = "CG-Bus"  # of a wake-up: the connection whose own subscriptions have received it

# Only commands and inbox rows have the position in the tree of turns.
TOPOLOGY = frozenset({DEPTH, STEP, TOOL_CALL, PARENT_AGENT, PARENT_TURN, PARENT_STEP, PARENT_TRACE})

# What a payload has no business to say, and the header it would have to agree with.
IDENTITY_FIELDS: Mapping[str, str] = {
    "project_id": PROJECT,
    "channel_id": CHANNEL,
    "channel": CHANNEL,
    "agent_id": AGENT,
    "agent_turn_id": TURN,
    "turn_epoch": EPOCH,
    "step_id": STEP,
    "tool_call_id": TOOL_CALL,
    "trace_id": "",
    "traceparent": TRACE,
    "tracestate": TRACE_STATE,
    "parent_agent_id": PARENT_AGENT,
    "parent_agent_turn_id": PARENT_TURN,
    "parent_step_id": PARENT_STEP,
    "parent_traceparent": PARENT_TRACE,
    "recursion_depth": DEPTH,
}


def without_identity(payload: Mapping[str, Any], headers: Mapping[str, str], where: str) -> dict[str, Any]:
    """The payload without what the headers say already; what says something else is refused."""
    repeated = IDENTITY_FIELDS.keys() & payload.keys()
    for name in sorted(repeated):
        known = _known(name, headers)
        if str(payload[name]) != known:
            raise ProtocolViolation(
                f"{where}: {name} in the payload is {str(payload[name])[:80]!r}, the header says {known!r}; "
                "leave it out",
                ErrorCode.FORBIDDEN_FIELD,
            )
    return {name: value for name, value in payload.items() if name not in repeated}


def _known(name: str, headers: Mapping[str, str]) -> str:
    if name == "trace_id":
        parts = headers.get(TRACE, "").split("-")
        return parts[1] if len(parts) == 4 else ""
    return headers.get(IDENTITY_FIELDS[name], "")
