"""Errors of the coordination part. Each is an AgentFlowError; the first three are the API's own names.

MessageCoordinatorError
├── CoordinatorInputError      what the caller gave is wrong; nothing was written (also InputError)
│   ├── AgentNameError         a type or instance that no key can be made of
│   └── CoordinatorSettingError  an option of the coordinator has a bad value (also SettingError)
├── CoordinatorUnavailable     the server does not answer (also StoreUnavailable)
├── CoordinatorKeyError        a key is there and holds something else (also StoreCorrupt)
├── CoordinatorStoreError      the server refused, for want of memory for example (also StoreError)
├── CoordinatorClosed          it was closed
├── RequestRefused             a request could not be put into the recipient's queue
└── RequestTimeout             no response in time (also TimeoutError)
AgentRegistryError
├── RegistryInputError, RegistryUnavailable, RegistryKeyError, RegistryStoreError   as above, of the registry
CircuitBreakerError
├── CircuitBreakerOpenError    the call was not let through
├── BreakerInputError, BreakerUnavailable, BreakerKeyError, BreakerStoreError       as above, of a breaker
PermanentFailure               raised by a handler of a Consumer: the message is dead, no further attempt
"""

from __future__ import annotations

from dataclasses import dataclass

from afl.kernel.errors import (
    AgentFlowError,
    InputError,
    SettingError,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
)


class MessageCoordinatorError(AgentFlowError, hint="Look at the text and at the server of AFL_REDIS."):
    """Base of what goes wrong with messages."""


class CoordinatorInputError(MessageCoordinatorError, InputError):
    """What the caller gave is wrong; nothing was written."""


class AgentNameError(
    CoordinatorInputError, hint="Use a type and an instance without the signs that the text names."
):
    """An agent's type or instance that no key can be made of."""


class CoordinatorSettingError(CoordinatorInputError, SettingError):
    """An option of the coordinator has a bad value; none was changed."""


class CoordinatorUnavailable(
    MessageCoordinatorError,
    StoreUnavailable,
    hint="Start Redis or correct AFL_REDIS; sending again with the same message id is safe.",
):
    """The server does not answer; what was asked may or may not have been done."""


class CoordinatorKeyError(
    MessageCoordinatorError, StoreCorrupt, hint="Use another key prefix: somebody else writes below this one."
):
    """A key of a queue holds another kind of value; nothing was written."""


class CoordinatorStoreError(
    MessageCoordinatorError, StoreError, hint="Look at the server: most often it has no memory left."
):
    """The server answered with an error."""


class CoordinatorClosed(MessageCoordinatorError, hint="Make a new coordinator; a closed one stays closed."):
    """The coordinator was closed."""


class RequestRefused(MessageCoordinatorError, hint="Look at the queue of the recipient: `afl coord queues`."):
    """A request could not be put into the recipient's queue; the text ends with the reason."""


class RequestTimeout(
    MessageCoordinatorError,
    TimeoutError,
    hint="See that the recipient lives: `afl coord agents`; or wait longer.",
):
    """No response came in time."""


class AgentRegistryError(AgentFlowError, hint="Look at the text and at the server of AFL_REDIS."):
    """Base of what goes wrong with the registry."""


class RegistryInputError(AgentRegistryError, InputError):
    """What the caller gave is wrong; nothing was written."""


class RegistryUnavailable(AgentRegistryError, StoreUnavailable, hint="Start Redis or correct AFL_REDIS."):
    """The server does not answer."""


class RegistryKeyError(
    AgentRegistryError, StoreCorrupt, hint="Use another key prefix: somebody else writes below this one."
):
    """A key of the registry holds another kind of value."""


class RegistryStoreError(
    AgentRegistryError, StoreError, hint="Look at the server: most often it has no memory left."
):
    """The server answered with an error."""


class CircuitBreakerError(AgentFlowError, hint="Look at the text; `afl coord breakers` lists the breakers."):
    """Base of what goes wrong with a circuit breaker."""


class CircuitBreakerOpenError(
    CircuitBreakerError,
    hint="Wait until it lets a call through (`retry_after`), or close it: `afl coord breakers close NAME`.",
):
    """The circuit is open: the call was not made. `retry_after` are the seconds until one is let through, if known."""

    def __init__(
        self, text: str = "", *, retry_after: float | None = None, correlation_id: str | None = None
    ) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        self.correlation_id = correlation_id


class BreakerInputError(CircuitBreakerError, InputError):
    """A name or an option of a circuit breaker is wrong."""


class BreakerUnavailable(CircuitBreakerError, StoreUnavailable, hint="Start Redis or correct AFL_REDIS."):
    """The server that holds the breaker's state does not answer."""


class BreakerKeyError(
    CircuitBreakerError, StoreCorrupt, hint="Use another key prefix: somebody else writes below this one."
):
    """A key of a breaker holds another kind of value."""


class BreakerStoreError(
    CircuitBreakerError, StoreError, hint="Look at the server: most often it has no memory left."
):
    """The server answered with an error."""


class PermanentFailure(Exception):
    """Raised by a Consumer's handler: the message goes to the dead letters, whatever attempts are left."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What one part raises when the server is away, when a key is of another kind, and when it refuses."""

    unavailable: type[AgentFlowError]
    wrong_key: type[AgentFlowError]
    refused: type[AgentFlowError]


MESSAGE_FAULTS = Faults(CoordinatorUnavailable, CoordinatorKeyError, CoordinatorStoreError)
REGISTRY_FAULTS = Faults(RegistryUnavailable, RegistryKeyError, RegistryStoreError)
BREAKER_FAULTS = Faults(BreakerUnavailable, BreakerKeyError, BreakerStoreError)
