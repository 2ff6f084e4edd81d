"""What every verb works with: the store, the workflows, the agents, and those who wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from afl.fleet.principal.catalogue import Catalogue
from afl.fleet.principal.fetchers import Fetchers, Place
from afl.fleet.principal.logs import Block
from afl.fleet.principal.old_peers import is_old
from afl.fleet.principal.parking import Parking
from afl.fleet.principal.registry import Agent, Registry
from afl.fleet.principal.runs import Order, claim, enqueue, unclaim
from afl.fleet.principal.store import Change, FleetStore, Notifications
from afl.fleet.protocol import Reply
from afl.fleet.statuses import Status
from afl.kernel.database import Row

T = TypeVar("T")
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
