"""A new turn on its way into the inbox: its context, its message, its edge, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.turns.context import TurnContext
from afl.turns.intents import SpawnIntent
from afl.turns.protocol.ids import new_span
from afl.turns.statuses import DepthPolicy, EdgePhase, InboxStatus, MessageType, Primitive
from afl.turns.store import inbox
from afl.turns.store.edges import edge_row


@dataclass(frozen=True, slots=True)
class Spawn:
    """A request that was found to be in order."""

    context: TurnContext  # of the new turn
    source: TurnContext
    payload: Mapping[str, Any]
    inbox_id: str
    correlation_id: str
    worker_target: str
    message_type: MessageType


def descendant(context: TurnContext, intent: SpawnIntent, turn: str) -> TurnContext:
    """The context of the new turn; its depth is settled once the store was asked."""
    root = intent.depth_policy is DepthPolicy.ROOT
    return TurnContext(
        project_id=context.project_id,
        channel_id=context.channel_id,
        agent_id=intent.target_agent_id,
        agent_turn_id=turn,
        parent_agent_id="" if root else context.agent_id,
        parent_agent_turn_id="" if root else context.agent_turn_id,
        parent_step_id="" if root else context.step_id,
        traceparent=new_span(context.traceparent),
        tracestate=context.tracestate,
        parent_traceparent=context.traceparent,
    )


def message_of(spawn: Spawn, status: InboxStatus, epoch: int) -> dict[str, Any]:
    context = spawn.context
    return inbox.message_row(
        project_id=context.project_id,
        inbox_id=spawn.inbox_id,
        agent_id=context.agent_id,
        worker_target=spawn.worker_target,
        channel_id=context.channel_id,
        message_type=spawn.message_type,
        agent_turn_id=context.agent_turn_id,
        turn_epoch=epoch,
        headers=context.headers(),
        payload=spawn.payload,
        status=status,
        correlation_id=spawn.correlation_id if spawn.correlation_id != context.agent_turn_id else None,
    )


def edge_of(spawn: Spawn) -> dict[str, Any]:
    return edge_row(
        spawn.source,
        Primitive.ENQUEUE,
        EdgePhase.REQUEST,
        spawn.correlation_id,
        target_agent_id=spawn.context.agent_id,
        target_turn_id=spawn.context.agent_turn_id,
        depth=spawn.context.recursion_depth,
        mode="call",
        metadata={"message_type": str(spawn.message_type)},
    )


def acknowledgement(spawn: Spawn, leased: Mapping[str, Any] | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "inbox_id": spawn.inbox_id,
        "correlation_id": spawn.correlation_id,
        "trace_id": spawn.context.trace_id,
        "agent_turn_id": spawn.context.agent_turn_id,
        "channel_id": spawn.context.channel_id,
        "recursion_depth": spawn.context.recursion_depth,
    }
    if leased is not None:
        answer |= {"turn_epoch": leased["turn_epoch"], "output_box_id": leased["output_box_id"]}
    return answer
