"""The interfaces of coordination: signatures as the API document prints them, additions keyword-only."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

from afl.coordination.models import (
    AgentId,
    AgentMessage,
    FailureType,
    MessageResult,
    MessageSubscription,
    MessageType,
    ReceivedMessage,
)


@runtime_checkable
class Agent(Protocol):
    """What the registry needs of an agent. Optional methods, each a plain function or a coroutine function:

    - `status_snapshot() -> dict`: the current status, as plain data;
    - `export_state() -> dict`: the state to restore when it registers again under the same id within the TTL;
    - `import_state(dict)`: restore what `export_state` returned;
    - `get_capabilities()`, or an attribute `capabilities`: its capabilities; see `Capability`.
    """

    @property
    def agent_id(self) -> AgentId: ...

    @property
    def name(self) -> str: ...


class MessageMetrics(Protocol):
    """Optional metrics protocol for message coordination. Called with positional arguments."""

    def inc_delivered_ok(self, count: int) -> None:
        """Increment successful deliveries."""

    def inc_delivered_error(self, count: int) -> None:
        """Increment delivery errors."""

    def inc_retries_scheduled(self, count: int, last_backoff_seconds: float) -> None:
        """Increment retry scheduling."""

    def inc_nacks(self, count: int) -> None:
        """Increment negative acknowledgments."""

    def inc_permanent(self, count: int) -> None:
        """Increment permanent failures (DLQ)."""


class MessageCoordinator(ABC):
    """Abstract interface for agent message coordination.

    Delivery is at least once: a message is deleted when it is acknowledged, and returns when its reservation ends
    before that. Within one priority messages keep the order in which they were sent.
    """

    @abstractmethod
    async def send_message(self, sender: AgentId, recipient: AgentId, message: AgentMessage) -> MessageResult:
        """Send a message to a specific agent.

        A refused message (queue full, too large, not JSON) is a result with `delivered=False` and the reason.
        Raises MessageCoordinatorError when the server is unavailable.
        """

    @abstractmethod
    async def broadcast_message(
        self, sender: AgentId, message: AgentMessage, recipients: list[AgentId]
    ) -> list[MessageResult]:
        """Send a copy to each recipient; one result per recipient, in their order."""

    @abstractmethod
    def subscribe_to_messages(
        self, agent_id: AgentId, message_types: list[MessageType]
    ) -> MessageSubscription:
        """Let `receive` return only messages of these types (and of the coordinator's other subscriptions).

        Messages of other types stay in the agent's queue, where other coordinators can receive them.
        """

    @abstractmethod
    async def receive(self, agent_id: AgentId, visibility_timeout: float = 5) -> ReceivedMessage | None:
        """Reserve the next available message for so many seconds; None when there is none."""

    @abstractmethod
    async def ack(self, agent_id: AgentId, token: str) -> bool:
        """Acknowledge a message. False when the token is unknown or its reservation ended."""

    @abstractmethod
    async def nack(
        self,
        agent_id: AgentId,
        token: str,
        failure: FailureType = FailureType.TRANSIENT,
        error: str | None = None,
    ) -> bool:
        """Report a failure: the message is retried after a backoff, or becomes a dead letter. False as for `ack`."""

    @abstractmethod
    async def recover_pending(self, agent_id: AgentId | None = None) -> int:
        """Return expired reservations of one agent or of all to their queues; their number."""

    @abstractmethod
    async def configure(
        self,
        *,
        queue_size: int | None = None,
        retry_attempts: int | None = None,
        backoff_base: float | None = None,
        backoff_factor: float | None = None,
        backoff_max: float | None = None,
    ) -> None:
        """Change the given options of this coordinator; all of them or, when one is wrong, none."""


class AgentRegistry(ABC):
    """Abstract interface for agent registration and discovery."""

    @abstractmethod
    def register(self, agent: Agent) -> None:
        """Register an agent."""

    @abstractmethod
    def deregister(self, agent_id: AgentId) -> None:
        """Deregister an agent."""

    @abstractmethod
    async def list_registered(self) -> list[dict[str, Any]]:
        """List all registered agents with liveness status.

        Each has `name`, `agent_id` (as a dict), `status`, `alive`, `last_heartbeat` and `capabilities` (empty when the
        agent has none).
        """

    @abstractmethod
    def start_heartbeats(self) -> None:
        """Start background heartbeat task."""

    @abstractmethod
    def stop_heartbeats(self) -> None:
        """Stop background heartbeat task."""


async def call_optional(agent: object, method: str, *arguments: Any) -> Any:
    """Call a method if the agent has it, and await the result if needed; else None."""
    function = getattr(agent, method, None)
    returned = None if function is None else function(*arguments)
    return await returned if inspect.isawaitable(returned) else returned
