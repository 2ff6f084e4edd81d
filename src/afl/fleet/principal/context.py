"""What every verb of the principal works with: the store, the workflows, the agents, and the requests that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from afl.fleet.messages import Status
from afl.fleet.principal.catalogue import Catalogue
from afl.fleet.principal.logs import Block
from afl.fleet.principal.registry import Agent, Registry, is_old
from afl.fleet.principal.runs import Order, claim, enqueue, unclaim
from afl.fleet.principal.store import Change, FleetStore, Notifications
from afl.fleet.protocol import Reply
from afl.kernel.database import Row


class Place:
    """One waiting request. Take the place, then look: what is notified meanwhile is not missed."""

    def __init__(self, agent_id: str, incarnation: str) -> None:
        self.agent_id = agent_id
        self.incarnation = incarnation
        self.gone = False  # the request was answered, or a later one of the same agent is here instead
        self.promised = False  # a run is being made that may be handed to it
        self.given: Row | None = None
        self._event = asyncio.Event()

    @property
    def is_notified(self) -> bool:
        return self._event.is_set()

    def notify(self) -> None:
        self._event.set()

    def give(self, run: Row) -> None:
        """Hand over a run that was claimed for it."""
        self.given = run
        self._event.set()

    def calm(self) -> None:
        """Called before each look."""
        self._event.clear()

    async def wait(self, seconds: float) -> bool:
        """Whether to look again; False when the time is over."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        return not self.gone


class Fetchers:
    """One place per incarnation: an agent that asks again has given up its earlier request."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._closing = False

    def wake(self) -> None:
        """Wake the one that has waited longest and was not woken yet."""
        place = self._free()
        if place is not None:
            place.notify()

    def promise(self) -> Place | None:
        """The one that `wake` would wake, kept for the caller, who gives it a run or sets it free again."""
        place = self._free()
        if place is not None:
            place.promised = True
        return place

    def release(self, place: Place) -> None:
        """There is no run for it after all; what came meanwhile may have passed it over, so it looks again."""
        place.promised = False
        place.notify()

    def close(self) -> None:
        """Let everyone go, now and later."""
        self._closing = True
        for place in self._places.values():
            place.gone = True
            place.notify()

    @contextmanager
    def place(self, agent_id: str, incarnation: str) -> Iterator[Place]:
        """A place at the end of the line."""
        place = Place(agent_id, incarnation)
        place.gone = self._closing
        earlier = self._places.pop(incarnation, None)
        if earlier is not None:
            earlier.gone = True
            earlier.notify()
        self._places[incarnation] = place
        try:
            yield place
        finally:
            place.gone = True
            if self._places.get(incarnation) is place:
                del self._places[incarnation]
                if place.is_notified and place.given is None and not self._closing:
                    self.wake()  # it was woken for a run that it does not take: the next one may

    def _free(self) -> Place | None:
        for place in self._places.values():
            if not place.is_notified and not place.promised:
                return place
        return None


T = TypeVar("T")


class Parking:
    """Everyone who waits, by topic. a notification between a look and the wait that follows is never missed."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._closing = False

    def notify(self, topics: Iterable[str]) -> None:
        """Wake everyone who listens to one of these topics."""
        for topic in topics:
            for event in self._waiting.get(topic, ()):
                event.set()

    def close(self) -> None:
        """Let everyone go, now and later: the principal ends."""
        self._closing = True
        self.notify(list(self._waiting))

    async def until(
        self, look: Callable[[], Awaitable[T | None]], topics: Iterable[str], seconds: float
    ) -> T | None:
        """The first answer that is not None; None when the time is over."""
        names = tuple(topics)
        event = asyncio.Event()
        for topic in names:
            self._waiting.setdefault(topic, set()).add(event)
        try:
            deadline = asyncio.get_running_loop().time() + seconds
            while True:
                event.clear()
                answer = await look()
                left = deadline - asyncio.get_running_loop().time()
                if answer is not None or left <= 0 or self._closing:
                    return answer
                await _notified(event, left)
        finally:
            for topic in names:
                self._leave(topic, event)

    def _leave(self, topic: str, event: asyncio.Event) -> None:
        waiting = self._waiting[topic]
        waiting.discard(event)
        if not waiting:
            del self._waiting[topic]


async def _notified(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return  # the caller looks once more, for the last time


LONGEST_WAIT_S = 60.0
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, and what to do when the peer that asked is gone before it could be sent."""

    reply: Reply
    undo: Callable[[], Awaitable[object]] | None = None


async def _publish_nothing(blocks: Sequence[Block]) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class Desk:
    """One per principal."""

    store: FleetStore
    catalogue: Catalogue
    registry: Registry
    parking: Parking = field(default_factory=Parking)
    fetchers: Fetchers = field(default_factory=Fetchers)
    publish: Callable[[Sequence[Block]], Awaitable[None]] = _publish_nothing

    async def change(self, work: Callable[[Change], T]) -> T:
        """Commit a transition, then wake whom it concerns."""
        result, notifications = await self.store.change_soon(work)
        self.notify(notifications)
        return result

    async def enqueue(self, order: Order) -> bool:
        """Make a run; a waiting agent gets the oldest run in the same commit, which saves it one of its own."""
        place = self.fetchers.promise()
        if place is None:
            return await self.change(lambda change: enqueue(change, order))
        try:
            made, run = await self.change(lambda change: _enqueue_for(change, order, place))
        except BaseException:
            self.fetchers.release(place)
            raise
        if run is None:
            self.fetchers.release(place)
        elif place.gone:
            await self.change(lambda change: unclaim(change, run["run_id"], run["epoch"]))
        else:
            place.give(run)
        return made

    def is_alive(self, agent: Agent) -> bool:
        return self.store.wall() - agent.last_seen <= self.store.lease_ms

    def waits(self, run: Row) -> str:
        """Why no agent takes a queued run; empty when one will, or when it is not queued."""
        if run["status"] != Status.PENDING or run["incarnation"]:
            return ""
        live = [agent for agent in self.registry.agents if self.is_alive(agent)]
        if not live:
            return "no agent is connected"
        if not run["needs"] or not all(is_old(agent.incarnation) for agent in live):
            return ""
        names = ", ".join(agent.agent_id for agent in live[:_MOST_NAMES])
        more = f" and {len(live) - _MOST_NAMES} more" if len(live) > _MOST_NAMES else ""
        return (
            f"only agents of the reference are connected ({names}{more}); "
            f"it needs an agent of AgentFlow for {run['needs']}"
        )

    def notify(self, notifications: Notifications) -> None:
        self.parking.notify(notifications.topics)
        for _ in range(notifications.queued):
            self.fetchers.wake()

    def close(self) -> None:
        """Answer everyone who waits: the principal ends."""
        self.parking.close()
        self.fetchers.close()


def _enqueue_for(change: Change, order: Order, place: Place) -> tuple[bool, Row | None]:
    if not enqueue(change, order):
        return False, None
    run = claim(change, place.agent_id, place.incarnation)
    change.notifications.queued -= run is not None
    return True, run


def seconds(wait_ms: int) -> float:
    """How long a request may be parked."""
    return min(wait_ms / 1000, LONGEST_WAIT_S)
