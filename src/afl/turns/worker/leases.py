"""The leases of a worker's turns: renewed while they are in its hands, and given away when they are not."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from afl.turns.store import heads
from afl.turns.worker.desk import Desk
from afl.turns.worker.hands import Hands
from afl.turns.worker.scene import Q

Renewed = tuple[str, str, str, int]  # project, agent, turn, epoch
_log = logging.getLogger("afl.turns")


class Leases:
    """For one worker."""

    def __init__(self, desk: Desk, hands: Hands) -> None:
        self._desk = desk
        self._hands = hands
        self._strange: set[Renewed] = set()  # renewed the last time, and in no hand

    @property
    def seconds(self) -> float:
        """How often they are to be renewed."""
        return self._desk.engine.limits.lease_ms / 3000

    async def renew(self) -> None:
        """Keep what is in hand, and give up what is no longer ours."""
        before = self._hands.snapshot()
        if not before:
            return
        lease_ms = self._desk.engine.limits.lease_ms
        renewed = await self._desk.engine.alone(lambda tx: heads.renew(tx, self._desk.owner, lease_ms))
        self._hands.keep(before, renewed)
        await self._disown(renewed)

    async def _disown(self, renewed: Iterable[Renewed]) -> None:
        """A turn in our name that is not in our hands, twice in a row, is given away.

        A claim may come to pass though its answer is lost with the connection; nobody would run that turn.
        """
        held = self._hands.snapshot()
        strange = {each for each in renewed if (each[0], each[1]) not in held}
        for project, agent, turn, epoch in strange & self._strange:
            _log.warning("turn %s of %s is in our name and not in our hands; it is given away", turn, agent)
            await self._give_away(project, agent, turn, epoch)
        self._strange = strange - self._strange

    async def _give_away(self, project: str, agent: str, turn: str, epoch: int) -> None:
        gate = {"project": project, "agent": agent, "turn": turn, "epoch": epoch}
        await self._desk.engine.alone(lambda tx: tx.all(Q.leave_turn, owner=self._desk.owner, **gate))
