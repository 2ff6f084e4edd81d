"""Who acts: an agent in a turn, or an actor outside of any (`sys.*`, `tool.*`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from afl.kernel import telemetry
from afl.kernel.bounds import LARGEST_COUNT, LONGEST_NAME, is_name
from afl.kernel.clock import wall_ms
from afl.turns.errors import ProtocolViolation
from afl.turns.model import Head, InboxRow
from afl.turns.protocol import headers as names
from afl.turns.protocol.ids import new_trace
from afl.turns.protocol.subjects import VERSION, check_token, parse_subject

_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
OUTSIDE = ("sys.", "tool.")
_DIGITS = 10
_IDS = (
    names.PROJECT,
    names.CHANNEL,
    names.AGENT,
    names.TURN,
    names.STEP,
    names.TOOL_CALL,
    names.PARENT_AGENT,
    names.PARENT_TURN,
    names.PARENT_STEP,
    names.PARENT_TRACE,
    names.TRACE_STATE,
)


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The one who calls a primitive: its turn is what new turns descend from."""

    project_id: str
    channel_id: str
    agent_id: str
    agent_turn_id: str = ""
    turn_epoch: int = 0
    recursion_depth: int = 0
    step_id: str = ""
    tool_call_id: str = ""
    parent_agent_id: str = ""
    parent_agent_turn_id: str = ""
    parent_step_id: str = ""
    traceparent: str = field(default_factory=new_trace)
    tracestate: str = ""
    parent_traceparent: str = ""

    def __post_init__(self) -> None:
        check_token(self.project_id, "project_id")
        check_token(self.channel_id, "channel_id")
        if not _TRACEPARENT.fullmatch(self.traceparent):
            raise ProtocolViolation(
                f"traceparent {self.traceparent[:80]!r}: expected 00-(32 hex)-(16 hex)-(2 hex)"
            )
        if self.recursion_depth < 0 or self.turn_epoch < 0:
            raise ProtocolViolation("recursion depth and turn epoch are never below 0")

    @classmethod
    def root(cls, project_id: str, agent_id: str, channel_id: str = "public") -> TurnContext:
        """An actor outside of any turn."""
        return cls(project_id, channel_id, agent_id, traceparent=telemetry.here() or new_trace())

    @property
    def trace_id(self) -> str:
        return self.traceparent.split("-")[1]

    @property
    def is_outside(self) -> bool:
        """Whether the actor needs no place in the roster."""
        return self.agent_id.startswith(OUTSIDE)

    def acting_as(self, agent_id: str) -> TurnContext:
        """The same place in the tree, another actor: a tool that answers a turn."""
        return replace(self, agent_id=agent_id)

    def headers(self, *, topology: bool = True) -> dict[str, str]:
        """The context as headers; empty ones are left out."""
        found = {
            names.PROJECT: self.project_id,
            names.CHANNEL: self.channel_id,
            names.AGENT: self.agent_id,
            names.TURN: self.agent_turn_id,
            names.EPOCH: str(self.turn_epoch),
            names.TRACE: self.traceparent,
            names.TRACE_STATE: self.tracestate,
        }
        if topology:
            found |= {
                names.DEPTH: str(self.recursion_depth),
                names.STEP: self.step_id,
                names.TOOL_CALL: self.tool_call_id,
                names.PARENT_AGENT: self.parent_agent_id,
                names.PARENT_TURN: self.parent_agent_turn_id,
                names.PARENT_STEP: self.parent_step_id,
                names.PARENT_TRACE: self.parent_traceparent,
            }
        return {name: value for name, value in found.items() if value}


def stamped(headers: Mapping[str, str], message_type: str, sender: str = "sys.l0") -> dict[str, str]:
    """Headers as they are published: with the time, the version, the kind and the sender."""
    own = {
        names.TIMESTAMP: str(wall_ms()),
        names.VERSION: VERSION,
        names.MESSAGE_TYPE: message_type,
        names.SENDER: sender,
    }
    return own | dict(headers)


def context_of_headers(headers: Mapping[str, str], *, subject: str | None = None) -> TurnContext:
    """The context that a message carries; what it must have and lacks is a ProtocolViolation."""
    for name in (names.PROJECT, names.CHANNEL, names.AGENT, names.TRACE, names.DEPTH):
        if not headers.get(name):
            raise ProtocolViolation(f"header {name} is missing")
    for name in _IDS:
        if headers.get(name) and not is_name(headers[name]):
            raise ProtocolViolation(
                f"header {name} is {headers[name][:80]!r}; expected at most {LONGEST_NAME} characters, "
                "no control characters among them"
            )
    context = TurnContext(
        project_id=headers[names.PROJECT],
        channel_id=headers[names.CHANNEL],
        agent_id=headers[names.AGENT],
        agent_turn_id=headers.get(names.TURN, ""),
        turn_epoch=_number(headers, names.EPOCH),
        recursion_depth=_number(headers, names.DEPTH),
        step_id=headers.get(names.STEP, ""),
        tool_call_id=headers.get(names.TOOL_CALL, ""),
        parent_agent_id=headers.get(names.PARENT_AGENT, ""),
        parent_agent_turn_id=headers.get(names.PARENT_TURN, ""),
        parent_step_id=headers.get(names.PARENT_STEP, ""),
        traceparent=headers[names.TRACE],
        tracestate=headers.get(names.TRACE_STATE, ""),
        parent_traceparent=headers.get(names.PARENT_TRACE, ""),
    )
    if subject is not None:
        parsed = parse_subject(subject)
        if (parsed.project_id, parsed.channel_id) != (context.project_id, context.channel_id):
            raise ProtocolViolation(f"headers and subject {subject!r} name different projects or channels")
    return context


def context_of_row(row: InboxRow) -> TurnContext:
    """The agent that a message is for, in the turn it is of; columns win over headers."""
    found = context_of_headers(
        dict(row.context_headers)
        | {names.PROJECT: row.project_id, names.CHANNEL: row.channel_id, names.AGENT: row.agent_id}
    )
    return replace(found, agent_turn_id=row.agent_turn_id, turn_epoch=row.turn_epoch)


def context_of_head(head: Head, step_id: str = "") -> TurnContext:
    """The agent in its active turn: what it enqueues descends from there."""
    if head.active_agent_turn_id is None or head.active_channel_id is None:
        raise ProtocolViolation(f"agent {head.agent_id} has no active turn")
    return TurnContext(
        project_id=head.project_id,
        channel_id=head.active_channel_id,
        agent_id=head.agent_id,
        agent_turn_id=head.active_agent_turn_id,
        turn_epoch=head.turn_epoch,
        recursion_depth=head.active_recursion_depth,
        step_id=step_id,
        parent_agent_id=head.context_headers.get(names.PARENT_AGENT, ""),
        parent_agent_turn_id=head.context_headers.get(names.PARENT_TURN, ""),
        parent_step_id=head.parent_step_id or "",
        traceparent=head.context_headers[names.TRACE],  # its children are in the turn's span
        tracestate=head.context_headers.get(names.TRACE_STATE, ""),
    )


def _number(headers: Mapping[str, str], name: str) -> int:
    text = headers.get(name, "0")
    if len(text) > _DIGITS or not text.isdecimal() or int(text) > LARGEST_COUNT:
        raise ProtocolViolation(
            f"header {name} is {text[:40]!r}; expected a whole number from 0 to {LARGEST_COUNT}"
        )
    return int(text)
