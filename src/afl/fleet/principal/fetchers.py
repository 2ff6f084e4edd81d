"""Agents that wait for a run, in the order they came: a new run wakes one of them, not all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

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
