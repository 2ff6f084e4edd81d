"""What a coordinator stands on: queues that move messages in single steps nobody can see the middle of.

The coordinator holds the policy (what is valid, how it is told, how long to wait), a broker the mechanism. A queue is
named by `type:instance`, times are microseconds. Every method is one transition: it has happened or it has not.

A message is in exactly one place: in line (ready, or delayed until its score), reserved under one token, or among the
dead letters; when it was acknowledged, or its time to live ended, it is nowhere. A reservation holds while the
broker's time is below its deadline: from then on its token does nothing any more, and the next `take` or `recover`
puts the message back with one attempt counted, or buries it when all attempts are spent.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from afl.coordination.options import CoordinatorOptions
from afl.coordination.waiting import Waiter, Waiters

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
