"""Errors of coordination. Each is an AgentFlowError; the first three are the API's own names.

MessageCoordinatorError
├── CoordinatorInputError      invalid input; nothing was written (also InputError)
│   ├── AgentNameError         a type or instance that no key can be made of
│   └── CoordinatorSettingError  an option of the coordinator has a bad value (also SettingError)
├── CoordinatorUnavailable     the server does not answer (also StoreUnavailable)
├── CoordinatorKeyError        a key holds another type of value (also StoreCorrupt)
├── CoordinatorStoreError      the server refused, for example without memory (also StoreError)
├── CoordinatorClosed          it was closed
├── RequestFailed              a request became a dead letter: its handler failed
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
    """Invalid input; nothing was written."""


class AgentNameError(
    CoordinatorInputError, hint="Use a type and an instance without the signs that the text names."
):
    """An agent's type or instance that is not valid in a key."""


class CoordinatorSettingError(CoordinatorInputError, SettingError):
    """An option of the coordinator has a bad value; none was changed."""


class CoordinatorUnavailable(
    MessageCoordinatorError,
    StoreUnavailable,
    hint="Start Redis or correct AFL_REDIS; sending again with the same message id is safe.",
):
    """The server does not answer; the operation may or may not have been done."""


class CoordinatorKeyError(
    MessageCoordinatorError, StoreCorrupt, hint="Use another key prefix: another program uses this one."
):
    """A key of a queue holds another type of value; nothing was written."""


class CoordinatorStoreError(
    MessageCoordinatorError, StoreError, hint="Look at the server: most often it has no memory left."
):
    """The server answered with an error."""


CLOSED = "the coordinator was closed; make another one"


class CoordinatorClosed(MessageCoordinatorError, hint="Make a new coordinator; a closed one stays closed."):
    """The coordinator was closed."""


class RequestFailed(
    MessageCoordinatorError, hint="`afl coord dlq show AGENT ID` has the request, and what it failed of."
):
    """The recipient failed on every attempt, so the request is a dead letter; the text ends with the last error."""


class RequestRefused(MessageCoordinatorError, hint="Look at the queue of the recipient: `afl coord queues`."):
    """A request could not be put into the recipient's queue; the text ends with the reason."""


class RequestTimeout(
    MessageCoordinatorError,
    TimeoutError,
    hint="Check that the recipient is alive: `afl coord agents`; or wait longer.",
):
    """No response came in time."""


class AgentRegistryError(AgentFlowError, hint="Look at the text and at the server of AFL_REDIS."):
    """Base of the registry's errors."""


class RegistryInputError(AgentRegistryError, InputError):
    """Invalid input; nothing was written."""


class RegistryUnavailable(AgentRegistryError, StoreUnavailable, hint="Start Redis or correct AFL_REDIS."):
    """The server does not answer."""


class RegistryKeyError(
    AgentRegistryError, StoreCorrupt, hint="Use another key prefix: another program uses this one."
):
    """A key of the registry holds another type of value."""


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
    """The circuit is open: the call was not made. `retry_after`: seconds until one is let through, if known."""

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
    CircuitBreakerError, StoreCorrupt, hint="Use another key prefix: another program uses this one."
):
    """A key of a breaker holds another type of value."""


class BreakerStoreError(
    CircuitBreakerError, StoreError, hint="Look at the server: most often it has no memory left."
):
    """The server answered with an error."""


class PermanentFailure(Exception):
    """Raised by a Consumer's handler: the message becomes a dead letter, whatever attempts are left."""


@dataclass(frozen=True, slots=True)
class ErrorTypes:
    """The errors of one part: server unavailable, key of another type, server error."""

    unavailable: type[AgentFlowError]
    wrong_key: type[AgentFlowError]
    refused: type[AgentFlowError]


MESSAGE_ERRORS = ErrorTypes(CoordinatorUnavailable, CoordinatorKeyError, CoordinatorStoreError)
REGISTRY_ERRORS = ErrorTypes(RegistryUnavailable, RegistryKeyError, RegistryStoreError)
BREAKER_ERRORS = ErrorTypes(BreakerUnavailable, BreakerKeyError, BreakerStoreError)
