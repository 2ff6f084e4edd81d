"""Queues and a coordinator in memory, for tests and single processes.

Coordinators that share a `MemoryWorld` share its queues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from afl.coordination.broker import (
    Broker,
    Counts,
    NackResult,
    OutgoingMessage,
    SendOutcome,
    TakeResult,
    Waiters,
    new_tokens,
)
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.interfaces import MessageMetrics
from afl.coordination.memory_queue import MemoryQueue


def _microseconds() -> int:
    return time.time_ns() // 1_000


class MemoryWorld:
    """What replaces a server: queues, and a clock that never goes back."""

    def __init__(self, clock: Callable[[], int] = _microseconds) -> None:
        self.queues: dict[str, MemoryQueue] = {}
        self.waiters = Waiters()
        self._clock = clock
        self._latest = 0

    def now(self) -> int:
        self._latest = max(self._latest, self._clock())
        return self._latest

    def queue(self, name: str) -> MemoryQueue:
        """The queue of a name; an empty one is created on each call."""
        return self.queues.setdefault(name, MemoryQueue())


class MemoryBroker(Broker):
    """The queue operations in memory: no method awaits, so each is atomic."""

    def __init__(self, world: MemoryWorld) -> None:
        super().__init__(world.waiters)
        self._world = world

    async def receive(self, queue: str, seconds: float) -> None:
        """Receivers of this process are notified anyway."""

    async def send(self, queue: str, parcel: OutgoingMessage) -> SendOutcome:
        admission = self._world.queue(queue).send(parcel, self.options, self._world.now())
        if admission is SendOutcome.STORED:
            self._waiters.notify(queue, 1)
        return admission

    async def send_all(self, parcels: Sequence[tuple[str, OutgoingMessage]]) -> list[SendOutcome | Exception]:
        return [await self.send(queue, parcel) for queue, parcel in parcels]

    async def take(
        self,
        queue: str,
        most: int,
        visible: int,
        *,
        keep: bool = True,
        subscriptions: Sequence[str] = (),
    ) -> TakeResult:
        it, now = self._world.queue(queue), self._world.now()
        wanted = it.types_of(subscriptions)
        taken = it.take(new_tokens(most), visible, keep, self.options, now, wanted)
        # Returned messages may be of a type that is not received here.
        self._waiters.notify(queue, taken.back if wanted else taken.back - len(taken.entries))
        return taken

    async def ack(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        it, now = self._world.queue(queue), self._world.now()
        return [it.ack(token, self.options, now) for token in tokens]

    async def extend(self, queue: str, tokens: Sequence[str], visible: int) -> list[bool]:
        it, now = self._world.queue(queue), self._world.now()
        return [it.extend(token, visible, now) for token in tokens]

    async def release(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        it, now = self._world.queue(queue), self._world.now()
        answers = [it.release(token, self.options, now) for token in tokens]
        self._waiters.notify(queue, sum(answers))
        return answers

    async def nack(
        self, queue: str, token: str, error: bytes, reason: bytes, *, final: bool, share: float
    ) -> NackResult | None:
        it, now = self._world.queue(queue), self._world.now()
        refusal = it.nack(token, error, reason, self.options, now, final=final, share=share)
        if refusal is not None and refusal.delay is not None:
            self._waiters.notify(queue, 1)
        return refusal

    async def recover(self, queue: str) -> TakeResult:
        taken = self._world.queue(queue).recover(self.options, self._world.now())
        self._waiters.notify(queue, taken.back)
        return taken

    async def queues(self) -> list[str]:
        return sorted(name for name, queue in self._world.queues.items() if not queue.is_unlisted)

    async def count(self, queue: str) -> Counts:
        return self._world.queue(queue).count(self.options, self._world.now())

    async def subscribe(self, queue: str, subscription: str, types: Sequence[str]) -> bool:
        it = self._world.queue(queue)
        known = it.subscriptions.pop(subscription, None) is not None
        if types:
            it.subscriptions[subscription] = tuple(types)
        self._waiters.notify(queue, it.size)  # receivers may take more types than before
        return known or bool(types)

    async def letters(self, queue: str, start: int, stop: int) -> list[bytes]:
        return _stretch([letter.text for letter in self._world.queue(queue).dead], start, stop)

    async def trail(self, queue: str, start: int, stop: int) -> list[bytes]:
        return _stretch(list(self._world.queue(queue).trail), start, stop)

    async def requeue(self, queue: str, dead_id: str, most: int) -> int:
        went = self._world.queue(queue).requeue(dead_id, most, self.options, self._world.now())
        self._waiters.notify(queue, went)
        return went

    async def purge(self, queue: str, dead_id: str) -> int:
        return self._world.queue(queue).purge(dead_id)

    async def withdraw(self, queue: str, message_id: str) -> bool:
        return self._world.queue(queue).withdraw(message_id, self.options, self._world.now())

    async def close(self) -> None:
        """Others may still use the world."""


def _stretch(items: list[bytes], start: int, stop: int) -> list[bytes]:
    """As LRANGE: both ends inclusive, negative ones counted from the end."""
    first = max(0, start + len(items) if start < 0 else start)
    last = stop + len(items) if stop < 0 else stop
    return items[first : last + 1]


class InMemoryMessageCoordinator(QueueCoordinator):
    """In-memory implementation of MessageCoordinator. Coordinators with the same world share its queues."""

    def __init__(
        self, metrics: MessageMetrics | None = None, *, world: MemoryWorld | None = None, **options: Any
    ) -> None:
        super().__init__(MemoryBroker(world or MemoryWorld()), metrics, options)
