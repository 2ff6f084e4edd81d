"""The turns in a worker's hands: one per agent, each a task, and the lease that says they are its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from afl.kernel.cancelling import cancel_and_wait
from afl.turns.model import Head

_log = logging.getLogger("afl.turns")
Key = tuple[str, str]  # project, agent


@dataclass(frozen=True, slots=True)
class Held:
    """One turn under way."""

    turn_id: str
    epoch: int
    task: asyncio.Task[None]


class Hands:
    """As many turns at once as there are slots."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._held: dict[Key, Held] = {}
        self._freed = asyncio.Event()
        self._reserved = 0  # for messages that are being handled: each may lead to a turn
        self._missed: dict[Key, Held] = {}  # not renewed the last time

    @property
    def free(self) -> int:
        return max(0, self._slots - len(self._held) - self._reserved)

    @property
    def empty(self) -> bool:
        return not self._held

    def reserve(self, count: int) -> None:
        """Keep slots for what was claimed and has not led to a turn yet."""
        self._reserved += count

    def release(self, count: int = 1) -> None:
        """It has, or it never will."""
        self._reserved -= count
        self._freed.set()

    def take(self, head: Head, work: Callable[[], Awaitable[None]]) -> None:
        """Run a turn. An older one of the same agent is over, or somebody else's: it is given up."""
        key = (head.project_id, head.agent_id)
        self.drop(key)
        task: asyncio.Task[None] = asyncio.create_task(self._run(work))
        held = Held(head.active_agent_turn_id or "", head.turn_epoch, task)
        self._held[key] = held
        task.add_done_callback(lambda _: self._done(key, held))

    def drop(self, key: Key, turn_id: str | None = None) -> None:
        """Give up the turn of an agent: this one, or whichever it is."""
        held = self._held.get(key)
        if held is not None and turn_id in (None, held.turn_id):
            del self._held[key]
            held.task.cancel()
            self._freed.set()

    def snapshot(self) -> dict[Key, Held]:
        return dict(self._held)

    def keep(self, before: dict[Key, Held], renewed: Iterable[tuple[str, str, str, int]]) -> None:
        """Of the turns that were in hand before the renewal, give up those that are no longer this worker's.

        One that has just ended is not renewed either, while its worker still tells of it. So a turn is given up
        when it is missing a second time; until then the fence keeps it from doing harm.
        """
        ours = {(project, agent): (turn, epoch) for project, agent, turn, epoch in renewed}
        missing = {
            key: held
            for key, held in before.items()
            if self._held.get(key) is held and ours.get(key) != (held.turn_id, held.epoch)
        }
        for key, held in missing.items():
            if self._missed.get(key) is held:
                _log.warning("turn %s of %s is no longer held here", held.turn_id, key[1])
                self.drop(key)
        self._missed = missing

    async def wait_free(self, timeout: float) -> None:
        """Wait until a slot is free, or the time is up."""
        self._freed.clear()
        if not self.free:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._freed.wait(), timeout)

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, so long; then give it up."""
        end = asyncio.get_running_loop().time() + seconds
        while self._reserved and (left := end - asyncio.get_running_loop().time()) > 0:
            self._freed.clear()  # a turn is being sent: it is about to be in hand
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._freed.wait(), left)
        tasks = [held.task for held in self._held.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        await cancel_and_wait(tasks)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()

    def _done(self, key: Key, held: Held) -> None:
        if self._held.get(key) is held:
            del self._held[key]
        self._freed.set()
