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
    """What the registry needs of an agent. It may have more, each a plain function or a coroutine function:

    - `status_snapshot() -> dict`: what the agent does just now, as plain data;
    - `export_state() -> dict`: what it wants back when it registers again under the same id within the TTL;
    - `import_state(dict)`: take back what `export_state` gave;
    - `get_capabilities()`, or an attribute `capabilities`: what it can do; see `Capability`.
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

    Delivery is at least once: a message is gone when it is acknowledged, and comes back when its reservation ends
    before that. Within one priority messages come in the order in which they were sent.
    """

    @abstractmethod
    async def send_message(self, sender: AgentId, recipient: AgentId, message: AgentMessage) -> MessageResult:
        """Send a message to a specific agent.

        What the queue refuses (full, too large, not JSON) is a result with `delivered=False` and the reason.
        Raises MessageCoordinatorError when the server cannot be asked.
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
        """Let `receive` hand this coordinator only messages of these types (and of its other subscriptions).

        Messages of other types wait in the agent's queue, where other coordinators can receive them.
        """

    @abstractmethod
    async def receive(self, agent_id: AgentId, visibility_timeout: float = 5) -> ReceivedMessage | None:
        """Reserve the next available message for so many seconds; None when there is none."""

    @abstractmethod
    async def ack(self, agent_id: AgentId, token: str) -> bool:
        """The message is done. False when the token is unknown or its reservation ended."""

    @abstractmethod
    async def nack(
        self,
        agent_id: AgentId,
        token: str,
        failure: FailureType = FailureType.TRANSIENT,
        error: str | None = None,
    ) -> bool:
        """The message failed: it is tried again after a while, or is dead. False as for `ack`."""

    @abstractmethod
    async def recover_pending(self, agent_id: AgentId | None = None) -> int:
        """Put back what was reserved and never answered, of one agent or of all; how many came back."""

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
    """What the method returns, awaited if need be; None when the agent has no such method."""
    function = getattr(agent, method, None)
    returned = None if function is None else function(*arguments)
    return await returned if inspect.isawaitable(returned) else returned
