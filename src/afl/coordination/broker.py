"""The broker: the atomic queue operations under a coordinator, and the receivers that wait for a queue."""

from __future__ import annotations

import asyncio
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from afl.coordination.options import CoordinatorOptions


class Waiter:
    """A receiver that waits. A notification that arrives while it is not waiting counts for its next wait.

    `looks_at` is when it polls by itself, `due` when it knows that a message may be ready. A selective receiver does
    not take every type, so a notification for it also wakes the next one.
    """

    def __init__(self) -> None:
        self.notified = self.is_selective = False
        self.looks_at = self.due = math.inf
        self._sleep: asyncio.Future[None] | None = None

    def notify(self) -> None:
        self.notified = True
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    async def wait(self, seconds: float, due: float | None = None) -> None:
        """Wait for a notification, at most so many seconds or until something is due.

        The notification is consumed unless the wait is canceled.
        """
        if not self.notified:
            loop = asyncio.get_running_loop()
            self.due = math.inf if due is None else loop.time() + due
            self.looks_at = min(self.due, loop.time() + seconds)
            self._sleep = loop.create_future()
            try:
                async with asyncio.timeout_at(self.looks_at):
                    await self._sleep
            except TimeoutError:
                pass
            finally:
                self._sleep = None
        self.notified = False


class Waiters:
    """Waiting receivers by queue. One message wakes one receiver that takes every type, the longest waiting first."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Waiter, None]] = {}

    @contextmanager
    def waiting(self, queue: str) -> Iterator[Waiter]:
        waiter = Waiter()
        self._waiting.setdefault(queue, {})[waiter] = None
        try:
            yield waiter
        finally:
            line = self._waiting[queue]
            del line[waiter]
            if not line:
                del self._waiting[queue]
            elif waiter.notified or waiter.due < min(other.looks_at for other in line):
                # It leaves with an unhandled notification, or alone knows the next due time: wake another.
                self.notify(queue, 1)

    def notify(self, queue: str, count: int) -> None:
        """Wake so many receivers that were not notified yet."""
        for waiter in self._waiting.get(queue, ()):
            if count <= 0:
                return
            if not waiter.notified:
                waiter.notify()
                count -= not waiter.is_selective

    def notify_all(self, queue: str | None = None) -> None:
        """Wake all receivers, of one queue or of all: notifications may have been missed."""
        for name, line in self._waiting.items():
            if queue is None or name == queue:
                for waiter in line:
                    waiter.notify()


TOKEN_LENGTH = 20  # "res_" and 16 hexadecimal digits


EXPIRED = "reservation expired"  # the last error of a message that was never acknowledged


class SendOutcome(IntEnum):
    """The outcome of sending a message to a queue."""

    FULL = 0
    STORED = 1
    DUPLICATE = 2


class OutgoingMessage(NamedTuple):
    """A message to be sent. `volatile` queues are in no index and expire by themselves."""

    message_id: str
    message_type: str
    priority: int
    body: bytes
    delay: int = 0
    ttl: int = 0
    volatile: int = 0


@dataclass(slots=True)
class Entry:
    """A message taken from a queue; `error` and `body` are JSON text."""

    token: str
    attempts: int
    priority: int
    enqueued: int
    error: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message that became a dead letter."""

    message_id: str
    attempts: int


@dataclass(slots=True)
class TakeResult:
    """The result of `take`. `due` is the time until a message may be ready; None when none is expected."""

    entries: list[Entry] = field(default_factory=list)
    deadline: int = 0
    due: int | None = None
    back: int = 0
    buried: list[DeadMessage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NackResult:
    """The result of a nack: a retry after `delay`, or a dead letter, or neither when the message had expired."""

    delay: int | None = None
    burial: DeadMessage | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages of a queue by state; ages and times in microseconds, None when there is no such message."""

    ready: tuple[int, int, int]
    waiting: int
    in_flight: int
    dead: int
    oldest: int | None
    due: int | None


class Broker(ABC):
    """The queue operations of one coordinator."""

    def __init__(self, waiters: Waiters) -> None:
        self.options = CoordinatorOptions()
        self._waiters = waiters

    def waiting(self, queue: str) -> AbstractContextManager[Waiter]:
        """A receiver that is notified, while the context lasts, when the queue may have a message."""
        return self._waiters.waiting(queue)

    def wake(self) -> None:
        """Wake all receivers."""
        self._waiters.notify_all()

    @abstractmethod
    async def receive(self, queue: str, seconds: float) -> None:
        """Return once receivers will be notified of new messages, at the latest after so long."""

    @abstractmethod
    async def send(self, queue: str, parcel: OutgoingMessage) -> SendOutcome:
        """Store a message, unless the queue is full or its id is a duplicate."""

    @abstractmethod
    async def send_all(self, parcels: Sequence[tuple[str, OutgoingMessage]]) -> list[SendOutcome | Exception]:
        """`send` for each, in one round trip; an error of one queue is its result."""

    @abstractmethod
    async def take(
        self,
        queue: str,
        most: int,
        visible: int,
        *,
        keep: bool = True,
        subscriptions: Sequence[str] = (),
    ) -> TakeResult:
        """Reserve up to `most` messages; without `keep` they are deleted at once.

        With subscription ids, only messages of the types of those that have not ended.
        """

    @abstractmethod
    async def ack(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        """Delete reserved messages."""

    @abstractmethod
    async def extend(self, queue: str, tokens: Sequence[str], visible: int) -> list[bool]:
        """Extend reservations to so long from now."""

    @abstractmethod
    async def release(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        """Return messages to their old position, without counting an attempt."""

    @abstractmethod
    async def nack(
        self, queue: str, token: str, error: bytes, reason: bytes, *, final: bool, share: float
    ) -> NackResult | None:
        """Count a failed attempt; `share` is the part of the backoff to wait. None when the token is invalid."""

    @abstractmethod
    async def recover(self, queue: str) -> TakeResult:
        """Return expired reservations; `back` and `buried` report them."""

    @abstractmethod
    async def queues(self) -> list[str]:
        """All queues that hold messages or dead letters."""

    @abstractmethod
    async def count(self, queue: str) -> Counts:
        """The number of messages by state."""

    @abstractmethod
    async def subscribe(self, queue: str, subscription: str, types: Sequence[str]) -> bool:
        """Add a subscription, or end it when there are no types; False when there was none to end."""

    @abstractmethod
    async def letters(self, queue: str, start: int, stop: int) -> list[bytes]:
        """Dead letters as JSON text, oldest first; `stop` is inclusive, -1 the last."""

    @abstractmethod
    async def trail(self, queue: str, start: int, stop: int) -> list[bytes]:
        """Lines `<time> <event> <message id>` of the audit trail, oldest first."""

    @abstractmethod
    async def requeue(self, queue: str, dead_id: str, most: int) -> int:
        """Queue dead letters again: the one of that id, or up to `most` when it is empty."""

    @abstractmethod
    async def purge(self, queue: str, dead_id: str) -> int:
        """Delete dead letters: the one of that id, or all when it is empty."""

    @abstractmethod
    async def withdraw(self, queue: str, message_id: str) -> bool:
        """Delete a queued or reserved message; its id still counts as a duplicate. False when it was not there."""

    @abstractmethod
    async def close(self) -> None:
        """Stop notifications; connections that belong to others stay open."""


def new_tokens(count: int) -> list[str]:
    """Unguessable, unique tokens."""
    if count == 1:
        return [f"res_{secrets.token_hex(8)}"]
    digits = secrets.token_hex(8 * count)
    return [f"res_{digits[start : start + 16]}" for start in range(0, 16 * count, 16)]
