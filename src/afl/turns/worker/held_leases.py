"""The turns that a worker holds: at most one per agent, each with a task and a lease that is renewed while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from afl.kernel.canceling import cancel_and_wait
from afl.kernel.database import Transaction
from afl.turns.engine import L0Engine
from afl.turns.model import Head
from afl.turns.store import heads
from afl.turns.worker.turn_state import Q

_log = logging.getLogger("afl.turns")
Key = tuple[str, str]  # project, agent
Renewed = tuple[str, str, str, int]  # project, agent, turn, epoch


@dataclass(frozen=True, slots=True)
class HeldTurn:
    """One running turn."""

    turn_id: str
    epoch: int
    task: asyncio.Task[None]


class HeldLeases:
    """As many turns at once as there are slots."""

    def __init__(self, engine: L0Engine, owner: str, slots: int) -> None:
        self._engine = engine
        self._owner = owner
        self._slots = slots
        self._held: dict[Key, HeldTurn] = {}
        self._freed = asyncio.Event()
        self._reserved = 0  # for messages that are being handled: each may lead to a turn
        self._missed: dict[Key, HeldTurn] = {}  # held, and missing in the last renewal
        self._strays: set[Renewed] = set()  # in the last renewal, and not held

    @property
    def free(self) -> int:
        return max(0, self._slots - len(self._held) - self._reserved)

    @property
    def turns(self) -> list[HeldTurn]:
        return list(self._held.values())

    def reserve(self, count: int) -> None:
        """Keep slots for claimed messages that may lead to turns."""
        self._reserved += count

    def release(self, count: int = 1) -> None:
        """Free slots that were reserved."""
        self._reserved -= count
        self._freed.set()

    def run(self, head: Head, work: Coroutine[Any, Any, None]) -> None:
        """Run a turn as a task. An older turn of the same agent is canceled: it is over, or another worker's."""
        key = (head.project_id, head.agent_id)
        self.cancel(key)
        held = HeldTurn(head.active_agent_turn_id or "", head.turn_epoch, asyncio.create_task(work))
        self._held[key] = held
        held.task.add_done_callback(lambda _: self._done(key, held))

    def cancel(self, key: Key, turn_id: str | None = None) -> None:
        """Cancel the turn of an agent: this one, or whichever it is."""
        held = self._held.get(key)
        if held is not None and turn_id in (None, held.turn_id):
            del self._held[key]
            held.task.cancel()
            self._freed.set()

    async def wait_free(self, timeout: float) -> None:
        """Wait until a slot is free, or for `timeout` seconds."""
        self._freed.clear()
        if not self.free:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._freed.wait(), timeout)

    async def drain(self, seconds: float) -> None:
        """Wait for the running turns for at most `seconds`, then cancel them."""
        end = asyncio.get_running_loop().time() + seconds
        while self._reserved and (left := end - asyncio.get_running_loop().time()) > 0:
            self._freed.clear()  # a turn is being sent, and will be run here
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._freed.wait(), left)
        tasks = [held.task for held in self.turns]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        await cancel_and_wait(tasks)

    @property
    def renew_seconds(self) -> float:
        """The interval of renewals."""
        return self._engine.limits.lease_ms / 3000

    async def renew(self) -> None:
        """Renew the leases of all turns, and cancel those that are no longer this worker's."""
        before = dict(self._held)
        if not before:
            return
        renewed = await self._engine.run(self._renewed)
        self._cancel_lost(before, renewed)
        await self._release_strays(renewed)

    def renew_blocked(self) -> None:
        """Renew the leases from another thread, while the event loop is blocked."""
        if self._held:
            self._engine.database.write(self._renewed)

    def _renewed(self, tx: Transaction) -> list[Renewed]:
        return heads.renew(tx, self._owner, self._engine.limits.lease_ms)

    def _cancel_lost(self, before: dict[Key, HeldTurn], renewed: Iterable[Renewed]) -> None:
        """Cancel turns that were missing in two renewals.

        A turn that has just ended is missing once, while its worker still publishes its events. Until the second
        renewal the fence keeps a lost turn from writing.
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
                self.cancel(key)
        self._missed = missing

    async def _release_strays(self, renewed: Iterable[Renewed]) -> None:
        """End the lease of turns that are this worker's in the store, and were not held here in two renewals.

        A claim may be committed though the connection was lost before its answer; nobody would run that turn.
        """
        strays = {each for each in renewed if (each[0], each[1]) not in self._held}
        for project, agent, turn, epoch in strays & self._strays:
            _log.warning(
                "turn %s of %s is leased to this worker but not held; the lease is released", turn, agent
            )
            gate = {"project": project, "agent": agent, "turn": turn, "epoch": epoch}
            await self._engine.run(lambda tx, gate=gate: tx.all(Q.leave_turn, owner=self._owner, **gate))  # type: ignore[misc]
        self._strays = strays - self._strays

    def _done(self, key: Key, held: HeldTurn) -> None:
        if self._held.get(key) is held:
            del self._held[key]
        self._freed.set()
