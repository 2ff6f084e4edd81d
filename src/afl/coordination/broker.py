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
    """Somebody who waits. a notification that comes while it is awake counts for its next wait.

    `looks_at` is when it looks again by itself, `due` when it knows that something may be there. A selective one is
    not handed everything, so a notification for it is a notification for the next one, too.
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
        """Returns when notified, at the latest after so many seconds, or when something is due.

        The ring is used up unless the wait is cancelled.
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
    """All who wait, by queue. One message wakes one of them who is handed everything, the longest waiting first."""

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
                # It leaves with a notification unanswered, or as the only one who knows what comes: another must look.
                self.notify(queue, 1)

    def notify(self, queue: str, count: int) -> None:
        """Wake so many of those who were not notified yet."""
        for waiter in self._waiting.get(queue, ()):
            if count <= 0:
                return
            if not waiter.notified:
                waiter.notify()
                count -= not waiter.is_selective

    def notify_all_topics(self, queue: str | None = None) -> None:
        """Wake everybody, of one queue or of all: something may have been missed."""
        for name, line in self._waiting.items():
            if queue is None or name == queue:
                for waiter in line:
                    waiter.notify()


TOKEN_LENGTH = 20  # "res_" and 16 hexadecimal digits


EXPIRED = "reservation expired"  # the last error of a message whose consumer never answered


class Admission(IntEnum):
    """What became of a message at the door of a queue."""

    FULL = 0
    STORED = 1
    DUPLICATE = 2


class Parcel(NamedTuple):
    """A message on its way into a queue. `volatile` queues are in no index and end by themselves."""

    message_id: str
    message_type: str
    priority: int
    body: bytes
    delay: int = 0
    ttl: int = 0
    volatile: int = 0


@dataclass(slots=True)
class Entry:
    """A message as it comes out of a queue; `error` and `body` are JSON text."""

    token: str
    attempts: int
    priority: int
    enqueued: int
    error: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Burial:
    """A message that went to the dead letters."""

    message_id: str
    attempts: int


@dataclass(slots=True)
class Taken:
    """What `take` found. `due` is the time until something may be there; None when nothing is to come."""

    entries: list[Entry] = field(default_factory=list)
    deadline: int = 0
    due: int | None = None
    back: int = 0
    buried: list[Burial] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a nack led to: a retry after `delay`, or a burial, or neither when the message's time was over."""

    delay: int | None = None
    burial: Burial | None = None


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
    """The mechanism of one coordinator."""

    def __init__(self, waiters: Waiters) -> None:
        self.options = CoordinatorOptions()
        self._waiters = waiters

    def waiting(self, queue: str) -> AbstractContextManager[Waiter]:
        """Somebody who is notified while the context lasts, when there may be something in the queue."""
        return self._waiters.waiting(queue)

    @abstractmethod
    async def receive(self, queue: str, seconds: float) -> None:
        """Returns when those who wait will be notified of what comes into the queue, at the latest after so long."""

    @abstractmethod
    async def send(self, queue: str, parcel: Parcel) -> Admission:
        """Store a message, unless the queue is full or has seen its id."""

    @abstractmethod
    async def send_all(self, parcels: Sequence[tuple[str, Parcel]]) -> list[Admission | Exception]:
        """`send` for each, in one round trip for all; an error of one queue is its answer."""

    @abstractmethod
    async def take(
        self,
        queue: str,
        most: int,
        visible: int,
        *,
        keep: bool = True,
        subscriptions: Sequence[str] = (),
    ) -> Taken:
        """Reserve up to `most` messages; without `keep` they are taken away at once.

        With ids of subscriptions, only messages of the types that those which have not ended ask for.
        """

    @abstractmethod
    async def ack(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        """Messages done."""

    @abstractmethod
    async def extend(self, queue: str, tokens: Sequence[str], visible: int) -> list[bool]:
        """Reservations that last from now on for so long."""

    @abstractmethod
    async def release(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        """Back where they stood, no attempt counted."""

    @abstractmethod
    async def nack(
        self, queue: str, token: str, error: bytes, reason: bytes, *, final: bool, share: float
    ) -> Refusal | None:
        """One attempt failed; `share` is the part of the backoff to wait. None when the token does nothing."""

    @abstractmethod
    async def recover(self, queue: str) -> Taken:
        """Put back what expired; `back` and `buried` tell of it."""

    @abstractmethod
    async def queues(self) -> list[str]:
        """All queues that hold messages or dead letters."""

    @abstractmethod
    async def count(self, queue: str) -> Counts:
        """How many are in which state."""

    @abstractmethod
    async def subscribe(self, queue: str, subscription: str, types: Sequence[str]) -> bool:
        """Add a subscription, or end it when there are no types; False when there was none to end."""

    @abstractmethod
    async def letters(self, queue: str, start: int, stop: int) -> list[bytes]:
        """Dead letters as JSON text, the oldest first; `stop` is included, -1 the last."""

    @abstractmethod
    async def trail(self, queue: str, start: int, stop: int) -> list[bytes]:
        """Lines `<time> <event> <message id>` of the audit trail, the oldest first."""

    @abstractmethod
    async def requeue(self, queue: str, dead_id: str, most: int) -> int:
        """Dead letters back in line: the one of that id, or up to `most` when it is empty."""

    @abstractmethod
    async def purge(self, queue: str, dead_id: str) -> int:
        """Dead letters away: the one of that id, or all when it is empty."""

    @abstractmethod
    async def withdraw(self, queue: str, message_id: str) -> bool:
        """A message away, in line or reserved; its id counts as seen. False when it was not there."""

    @abstractmethod
    async def close(self) -> None:
        """Nobody is notified any more; connections that belong to others stay open."""


def new_tokens(count: int) -> list[str]:
    """Tokens that nobody can guess, and no two calls make twice."""
    if count == 1:
        return [f"res_{secrets.token_hex(8)}"]
    digits = secrets.token_hex(8 * count)
    return [f"res_{digits[start : start + 16]}" for start in range(0, 16 * count, 16)]
