"""The interface of the bus: in process on the kernel's notifier, or NATS JetStream.

What must arrive (`cmd.*`, `evt.agent.*.task`) goes through the outbox and the relay, which alone calls `store`.
Everything else (wake-ups, `evt.*.state`, `evt.*.step`, `str.*`) is published once, and lost without a subscriber.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from afl.kernel.errors import InputError
from afl.turns.bus.outbox import OutboxRow
from afl.turns.message import Message

Callback = Callable[[Message], Awaitable[None]]
MAX_DELIVER = 5  # how often a consumer is given a message that it cannot handle


@dataclass(slots=True)
class Published:
    """What the bus took: position in the outbox -> sequence on the bus. Not all of it during an outage."""

    sequences: dict[int, int] = field(default_factory=dict)
    error: Exception | None = None


def checked_concurrency(concurrency: int) -> int:
    """How many messages are handled at once."""
    if concurrency < 1:
        raise InputError(f"concurrency is {concurrency!r}; expected at least 1")
    return concurrency


class Subscription(ABC):
    """A listener; `close` ends it."""

    @abstractmethod
    async def close(self) -> None: ...


class WakeupSubscription(ABC):
    """Receives the wake-ups of some worker targets. A lost wake-up costs latency, never work."""

    @abstractmethod
    async def wait(self, timeout: float | None = None) -> bool:
        """Whether there was a wake-up since the last call, or is one within `timeout` seconds."""

    @abstractmethod
    def wake(self) -> None:
        """End the wait under way, or the next one; from any thread."""

    @abstractmethod
    async def close(self) -> None: ...


class Bus(ABC):
    """Used from one event loop. `start` it before anything else."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def publish(self, message: Message) -> None:
        """Publish to the current subscribers. Never waits and never fails."""

    @abstractmethod
    async def store(self, rows: Sequence[OutboxRow], last: Mapping[str, int]) -> Published:
        """Publish rows of the outbox, per subject in order and each once. For the relay alone.

        `last` is the sequence recorded last for each subject; whoever comes with an older one is found out.
        """

    @abstractmethod
    def stored(self, rows: Sequence[OutboxRow]) -> None:
        """The relay has recorded that these are published."""

    @abstractmethod
    async def subscribe(self, patterns: Iterable[str], callback: Callback) -> Subscription:
        """Receive what is published from now on, while subscribed."""

    @abstractmethod
    async def consume(
        self, durable: str, patterns: Iterable[str], callback: Callback, *, concurrency: int = 1
    ) -> Subscription:
        """Receive everything that goes through the outbox at least once, also what was published before.

        Consumers of one name share the messages. A callback that raises is given the message again, at most
        MAX_DELIVER times. It is called for up to `concurrency` messages at once; the others stay with the bus, for
        whoever has room. What is under way when the subscription closes is canceled, and comes again.
        """

    @abstractmethod
    async def listen(self, targets: Iterable[str]) -> WakeupSubscription:
        """A subscription to the wake-ups of worker targets, from now on."""
