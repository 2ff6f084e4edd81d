"""A request for a new turn that was checked: its inbox message, its edge, and the acknowledgment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.turns.context import TurnContext
from afl.turns.intents import SpawnIntent
from afl.turns.model import Head
from afl.turns.protocol.ids import new_span
from afl.turns.statuses import DepthPolicy, EdgePhase, InboxStatus, MessageType, Primitive
from afl.turns.store import inbox
from afl.turns.store.edges import edge_row


@dataclass(frozen=True, slots=True)
class NewTurn:
    """`context` is that of the new turn, `source` that of the caller. The turn's id is also its message's."""

    context: TurnContext
    source: TurnContext
    payload: Mapping[str, Any]
    correlation_id: str
    worker_target: str
    message_type: MessageType

    @property
    def inbox_id(self) -> str:
        return self.context.agent_turn_id

    def message(self, status: InboxStatus, epoch: int) -> dict[str, Any]:
        context = self.context
        return inbox.message_row(
            project_id=context.project_id,
            inbox_id=self.inbox_id,
            agent_id=context.agent_id,
            worker_target=self.worker_target,
            channel_id=context.channel_id,
            message_type=self.message_type,
            agent_turn_id=context.agent_turn_id,
            turn_epoch=epoch,
            headers=context.headers(),
            payload=self.payload,
            status=status,
            correlation_id=self.correlation_id if self.correlation_id != context.agent_turn_id else None,
        )

    def edge(self) -> dict[str, Any]:
        return edge_row(
            self.source,
            Primitive.ENQUEUE,
            EdgePhase.REQUEST,
            self.correlation_id,
            target_agent_id=self.context.agent_id,
            target_turn_id=self.context.agent_turn_id,
            depth=self.context.recursion_depth,
            mode="call",
            metadata={"message_type": str(self.message_type)},
        )

    def acknowledgment(self, head: Head | None = None) -> dict[str, Any]:
        """The payload of the result; with `head` the turn has its agent."""
        answer: dict[str, Any] = {
            "inbox_id": self.inbox_id,
            "correlation_id": self.correlation_id,
            "trace_id": self.context.trace_id,
            "agent_turn_id": self.context.agent_turn_id,
            "channel_id": self.context.channel_id,
            "recursion_depth": self.context.recursion_depth,
        }
        return answer if head is None else answer | head.leased


def descendant(context: TurnContext, intent: SpawnIntent, turn: str) -> TurnContext:
    """The context of the new turn; its depth is set once the store was read."""
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
