"""Agent-to-agent messages, registry and circuit breaker on Redis, or in memory.

The same names are importable from `tta_agent_coordination`.
"""

from afl.kernel.errors import MissingExtraError, pip_install

try:
    import pydantic  # noqa: F401 - only to say what is missing
    import redis  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name not in ("pydantic", "redis"):
        raise
    raise MissingExtraError(
        f"{missing.name} is required for coordination. Install it with: {pip_install('coordination')}"
    ) from missing

from afl.coordination.agent_record import AgentEvent
from afl.coordination.breaker_config import BreakerMode, CircuitBreakerConfig, CircuitBreakerState
from afl.coordination.capabilities import Capability
from afl.coordination.circuit_breaker import CircuitBreaker
from afl.coordination.consumer import Consumer
from afl.coordination.errors import (
    AgentNameError,
    AgentRegistryError,
    BreakerInputError,
    BreakerKeyError,
    BreakerStoreError,
    BreakerUnavailable,
    CircuitBreakerError,
    CircuitBreakerOpenError,
    CoordinatorClosed,
    CoordinatorInputError,
    CoordinatorKeyError,
    CoordinatorSettingError,
    CoordinatorStoreError,
    CoordinatorUnavailable,
    MessageCoordinatorError,
    PermanentFailure,
    RegistryInputError,
    RegistryKeyError,
    RegistryStoreError,
    RegistryUnavailable,
    RequestFailed,
    RequestRefused,
    RequestTimeout,
)
from afl.coordination.interfaces import Agent, AgentRegistry, MessageCoordinator, MessageMetrics
from afl.coordination.memory_broker import InMemoryMessageCoordinator, MemoryWorld
from afl.coordination.memory_registry import AgentBoard, InMemoryAgentRegistry
from afl.coordination.metrics import InMemoryMessageMetrics, MessageGauges
from afl.coordination.models import (
    AgentId,
    AgentMessage,
    AuditEntry,
    DeadLetter,
    FailureType,
    MessagePriority,
    MessageResult,
    MessageSubscription,
    MessageType,
    QueueMessage,
    QueueStatistics,
    ReceivedMessage,
    RoutingKey,
)
from afl.coordination.options import CoordinatorOptions
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.coordination.redis_registry import RedisAgentRegistry

__all__ = [
    "Agent",
    "AgentBoard",
    "AgentEvent",
    "AgentId",
    "AgentMessage",
    "AgentNameError",
    "AgentRegistry",
    "AgentRegistryError",
    "AuditEntry",
    "BreakerInputError",
    "BreakerKeyError",
    "BreakerMode",
    "BreakerStoreError",
    "BreakerUnavailable",
    "Capability",
    "CircuitBreaker",
    "CircuitBreakerConfig",
    "CircuitBreakerError",
    "CircuitBreakerOpenError",
    "CircuitBreakerState",
    "Consumer",
    "CoordinatorClosed",
    "CoordinatorInputError",
    "CoordinatorKeyError",
    "CoordinatorOptions",
    "CoordinatorSettingError",
    "CoordinatorStoreError",
    "CoordinatorUnavailable",
    "DeadLetter",
    "FailureType",
    "InMemoryAgentRegistry",
    "InMemoryMessageCoordinator",
    "InMemoryMessageMetrics",
    "MemoryWorld",
    "MessageCoordinator",
    "MessageCoordinatorError",
    "MessageGauges",
    "MessageMetrics",
    "MessagePriority",
    "MessageResult",
    "MessageSubscription",
    "MessageType",
    "PermanentFailure",
    "QueueMessage",
    "QueueStatistics",
    "ReceivedMessage",
    "RedisAgentRegistry",
    "RedisMessageCoordinator",
    "RegistryInputError",
    "RegistryKeyError",
    "RegistryStoreError",
    "RegistryUnavailable",
    "RequestFailed",
    "RequestRefused",
    "RequestTimeout",
    "RoutingKey",
]
