"""Messages between agents, and the coordinator's results."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel, Field


class AgentId(BaseModel):
    """Generic agent identifier. Without an instance it names the queue that all agents of the type share."""

    type: str = Field(..., description="Agent type identifier (e.g., 'input_processor', 'world_builder')")
    instance: str | None = Field(
        default=None, description="Optional instance identifier for sharded/pooled agents"
    )

    def __hash__(self) -> int:
        return hash((self.type, self.instance))


class MessagePriority(int, Enum):
    """Message priority levels."""

    LOW = 1
    NORMAL = 5
    HIGH = 9


class MessageType(str, Enum):  # noqa: UP042 - as the API prints it
    """Generic message types."""

    REQUEST = "request"
    RESPONSE = "response"
    EVENT = "event"


class FailureType(str, Enum):  # noqa: UP042 - as the API prints it
    """Message processing failure types."""

    TRANSIENT = "transient"  # Retry with backoff
    PERMANENT = "permanent"  # Send to DLQ
    TIMEOUT = "timeout"  # Retry with backoff


class RoutingKey(BaseModel):
    """The topic and tags of a message, for routing and filters."""

    topic: str | None = None
    tags: list[str] = Field(default_factory=list)


class AgentMessage(BaseModel):
    """Generic agent message. `correlation_id` and `reply_to` belong to requests and their responses."""

    message_id: str = Field(..., min_length=6)
    sender: AgentId
    recipient: AgentId
    message_type: MessageType
    payload: dict[str, Any] = Field(default_factory=dict)
    priority: MessagePriority = MessagePriority.NORMAL
    routing: RoutingKey = Field(default_factory=RoutingKey)
    timestamp: str | None = None
    correlation_id: str | None = None
    reply_to: AgentId | None = None


class QueueMessage(BaseModel):
    """A message in a queue. `delivery_attempts` counts attempts that failed or were never acknowledged."""

    message: AgentMessage
    priority: MessagePriority = MessagePriority.NORMAL
    enqueued_at: str | None = None
    delivery_attempts: int = 0
    last_error: str | None = None


class MessageResult(BaseModel):
    """Result of message delivery attempt."""

    message_id: str
    delivered: bool
    error: str | None = None


class ReceivedMessage(BaseModel):
    """Message received with reservation token."""

    token: str
    queue_message: QueueMessage
    visibility_deadline: str | None = None

    @property
    def message(self) -> AgentMessage:
        """The message itself."""
        return self.queue_message.message


class MessageSubscription(BaseModel):
    """A subscription of an agent. `subscription_id` is the argument of `unsubscribe`."""

    subscription_id: str
    agent_id: AgentId
    message_types: list[MessageType] = Field(default_factory=list)


class DeadLetter(BaseModel):
    """A message that will not be retried, and why."""

    dead_id: str
    reason: str
    dead_at: str
    queue_message: QueueMessage | None = None
    raw: str | None = Field(
        default=None, description="what was found in place of a message that could be read"
    )

    @property
    def message_id(self) -> str | None:
        """The id of the message, when it could be read."""
        return None if self.queue_message is None else self.queue_message.message.message_id


class QueueStatistics(BaseModel):
    """The number of messages of a queue by state, and how long the oldest has been ready."""

    agent_id: AgentId
    ready: int
    delayed: int
    in_flight: int
    dead: int
    ready_by_priority: dict[MessagePriority, int]
    oldest_ready_seconds: float | None = None
    next_due_seconds: float | None = None

    @property
    def total(self) -> int:
        """What counts toward `queue_size`: ready, delayed and in flight."""
        return self.ready + self.delayed + self.in_flight


class AuditEntry(BaseModel):
    """One line of a queue's audit trail: sent, acked, retried, expired, released, lapsed, dead,
    requeued, withdrawn.
    """

    at: str
    event: str
    message_id: str
