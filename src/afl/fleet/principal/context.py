"""What every verb of the principal works with: the store, the workflows, the agents, and the requests that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from afl.fleet.messages import Status
from afl.fleet.principal.catalog import Catalog
from afl.fleet.principal.logs import Block
from afl.fleet.principal.registry import Agent, Registry, is_old
from afl.fleet.principal.runs import NewRun, claim, enqueue, unclaim
from afl.fleet.principal.store import Change, FleetStore, Notifications
from afl.fleet.protocol import Reply
from afl.kernel.database import Row


class WaitingFetch:
    """One waiting request. It is queued before it checks for a run, so that no notification is missed."""

    def __init__(self, agent_id: str, incarnation: str) -> None:
        self.agent_id = agent_id
        self.incarnation = incarnation
        self.closed = False  # the request was answered, or replaced by a later one of the same agent
        self.reserved = False  # a run is being created that may be assigned to it
        self.assigned: Row | None = None
        self._event = asyncio.Event()

    @property
    def is_notified(self) -> bool:
        return self._event.is_set()

    def notify(self) -> None:
        self._event.set()

    def assign(self, run: Row) -> None:
        """Assign a run that was claimed for it."""
        self.assigned = run
        self._event.set()

    def clear(self) -> None:
        """Called before each check."""
        self._event.clear()

    async def wait(self, seconds: float) -> bool:
        """Whether to check again; False after the timeout."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        return not self.closed


class FetchQueue:
    """Agents that wait for a run, oldest first: a new run wakes one of them. One request per incarnation."""

    def __init__(self) -> None:
        self._fetches: dict[str, WaitingFetch] = {}
        self._closing = False

    def wake(self) -> None:
        """Wake the request that has waited longest and was not woken yet."""
        fetch = self._longest_waiting()
        if fetch is not None:
            fetch.notify()

    def reserve(self) -> WaitingFetch | None:
        """The request that `wake` would wake, reserved for the caller, who assigns a run or releases it."""
        fetch = self._longest_waiting()
        if fetch is not None:
            fetch.reserved = True
        return fetch

    def release(self, fetch: WaitingFetch) -> None:
        """There is no run for it after all; notifications may have skipped it meanwhile, so it checks again."""
        fetch.reserved = False
        fetch.notify()

    def close(self) -> None:
        """End all waiting requests, now and later."""
        self._closing = True
        for fetch in self._fetches.values():
            fetch.closed = True
            fetch.notify()

    @contextmanager
    def join(self, agent_id: str, incarnation: str) -> Iterator[WaitingFetch]:
        """Queue a request at the end."""
        fetch = WaitingFetch(agent_id, incarnation)
        fetch.closed = self._closing
        earlier = self._fetches.pop(incarnation, None)
        if earlier is not None:
            earlier.closed = True
            earlier.notify()
        self._fetches[incarnation] = fetch
        try:
            yield fetch
        finally:
            fetch.closed = True
            if self._fetches.get(incarnation) is fetch:
                del self._fetches[incarnation]
                if fetch.is_notified and fetch.assigned is None and not self._closing:
                    self.wake()  # it was woken for a run that it does not take: the next one may

    def _longest_waiting(self) -> WaitingFetch | None:
        for fetch in self._fetches.values():
            if not fetch.is_notified and not fetch.reserved:
                return fetch
        return None


T = TypeVar("T")


class LongPolls:
    """Requests that wait for a topic. A notification between a check and the following wait is never missed."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._closing = False

    def notify(self, topics: Iterable[str]) -> None:
        """Wake the requests that wait for one of these topics."""
        for topic in topics:
            for event in self._waiting.get(topic, ()):
                event.set()

    def close(self) -> None:
        """End all waiting requests, now and later: the principal stops."""
        self._closing = True
        self.notify(list(self._waiting))

    async def until(
        self, look: Callable[[], Awaitable[T | None]], topics: Iterable[str], seconds: float
    ) -> T | None:
        """The first result of `look` that is not None; None after the timeout."""
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
                self._unsubscribe(topic, event)

    def _unsubscribe(self, topic: str, event: asyncio.Event) -> None:
        waiting = self._waiting[topic]
        waiting.discard(event)
        if not waiting:
            del self._waiting[topic]


async def _notified(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return  # the caller checks once more


MAX_WAIT_S = 60.0
_SHOWN_NAMES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, and what to undo when the peer has disconnected before it is sent."""

    reply: Reply
    undo: Callable[[], Awaitable[object]] | None = None


async def _publish_nothing(blocks: Sequence[Block]) -> None:
    """The default: no subscribers."""


@dataclass(slots=True)
class PrincipalContext:
    """One per principal."""

    store: FleetStore
    catalog: Catalog
    registry: Registry
    long_polls: LongPolls = field(default_factory=LongPolls)
    fetch_queue: FetchQueue = field(default_factory=FetchQueue)
    publish: Callable[[Sequence[Block]], Awaitable[None]] = _publish_nothing

    async def change(self, work: Callable[[Change], T]) -> T:
        """Commit a transition, then send its notifications."""
        result, notifications = await self.store.change_async(work)
        self.notify(notifications)
        return result

    async def enqueue(self, new_run: NewRun) -> bool:
        """Create a run; a waiting agent claims the oldest run in the same commit, which saves a second one."""
        fetch = self.fetch_queue.reserve()
        if fetch is None:
            return await self.change(lambda change: enqueue(change, new_run))
        try:
            made, run = await self.change(lambda change: _enqueue_for(change, new_run, fetch))
        except BaseException:
            self.fetch_queue.release(fetch)
            raise
        if run is None:
            self.fetch_queue.release(fetch)
        elif fetch.closed:
            await self.change(lambda change: unclaim(change, run["run_id"], run["epoch"]))
        else:
            fetch.assign(run)
        return made

    def is_alive(self, agent: Agent) -> bool:
        return self.store.wall() - agent.last_seen <= self.store.lease_ms

    def waits(self, run: Row) -> str:
        """Why no agent takes a queued run; empty when one will, or when it is not queued."""
        if run["status"] == Status.WAITING:
            return "an earlier run of its workflow is open"
        if run["status"] != Status.PENDING or run["incarnation"]:
            return ""
        live = [agent for agent in self.registry.agents if self.is_alive(agent)]
        if not live:
            return "no agent is connected"
        if not run["needs"] or not all(is_old(agent.incarnation) for agent in live):
            return ""
        names = ", ".join(agent.agent_id for agent in live[:_SHOWN_NAMES])
        more = f" and {len(live) - _SHOWN_NAMES} more" if len(live) > _SHOWN_NAMES else ""
        return (
            f"only agents of the reference are connected ({names}{more}); "
            f"it needs an agent of AgentFlow for {run['needs']}"
        )

    def notify(self, notifications: Notifications) -> None:
        self.long_polls.notify(notifications.topics)
        for _ in range(notifications.queued):
            self.fetch_queue.wake()

    def close(self) -> None:
        """Answer all waiting requests: the principal stops."""
        self.long_polls.close()
        self.fetch_queue.close()


def _enqueue_for(change: Change, new_run: NewRun, fetch: WaitingFetch) -> tuple[bool, Row | None]:
    if not enqueue(change, new_run):
        return False, None
    run = claim(change, fetch.agent_id, fetch.incarnation)
    change.notifications.queued -= run is not None
    return True, run


def seconds(wait_ms: int) -> float:
    """How long a request may wait."""
    return min(wait_ms / 1000, MAX_WAIT_S)
