"""Driving a turn in hand to its end or its next wait, whatever the store does meanwhile."""

from __future__ import annotations

import asyncio
import logging

from afl.kernel.database import Transaction
from afl.kernel.errors import AgentFlowError, FencedError, StoreUnavailable
from afl.turns.model import Head, L0Result
from afl.turns.orchestration.joining import join_child
from afl.turns.protocol import headers as names
from afl.turns.store import heads
from afl.turns.worker.desk import AGAIN, Desk
from afl.turns.worker.scene import Scene
from afl.turns.worker.turn import TurnRun

_log = logging.getLogger("afl.turns")


class Driver:
    """For one worker. A turn it drives ends in the store, or is no longer this worker's: it is never just left."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def drive(self, scene: Scene) -> Head | None:
        """Run a turn; after an outage it goes on from what the store has. The head as it was, if the turn is over."""
        current: Scene | None = scene
        failures = 0
        while current is not None:
            run = TurnRun(self._desk, current)
            try:
                await run.run()
            except FencedError as error:
                _log.info("%s", error)
                return None
            except StoreUnavailable as error:
                failures += 1
                _log.warning("turn %s waits for the store: %s", current.turn_id, error)
                await asyncio.sleep(AGAIN.delay(failures))
                current = await self._again(current)
                continue
            except Exception as error:
                known = isinstance(error, AgentFlowError)
                _log.error("turn %s failed: %s", current.turn_id, error, exc_info=not known)
                again = await self._failed(current, error)
                if again is None:
                    return current.head
                current = again
                continue
            return None if run.ended is None else current.head
        return None

    async def join(self, head: Head) -> None:
        """A turn is over: the one that set it off may wait for it. A sweep looks again should this fail."""
        if names.PARENT_TURN not in head.context_headers:
            return
        turn = head.active_agent_turn_id or ""
        try:
            signals = await self._desk.write(lambda tx: join_child(tx, head.project_id, turn))
        except AgentFlowError as error:
            _log.warning("the batch of turn %s waits for a sweep: %s", turn, error)
            return
        self._desk.engine.tell(*signals)
        self._desk.engine.relay.poke()

    async def _again(self, scene: Scene) -> Scene | None:
        """The turn as the store has it now, if it is still ours: a commit may have come to pass unheard."""

        def work(tx: Transaction) -> Scene | None:
            head = self._own(tx, scene, lock=False)
            return None if head is None else self._desk.scenes.recall(tx, head, scene.step_id)

        failures = 0
        while True:
            try:
                found = await self._desk.engine.database.run("read", work)
            except StoreUnavailable:
                failures += 1
                await asyncio.sleep(AGAIN.delay(failures))
                continue
            return found

    async def _failed(self, scene: Scene, error: Exception) -> Scene | None:
        """A mistake of ours, or of a card: the turn fails, and says so. A scene: the store was away, once more."""
        code = str(getattr(error, "code", "internal_error"))
        why = str(error) if isinstance(error, AgentFlowError) else f"{type(error).__name__}: {error}"

        def work(tx: Transaction) -> L0Result | None:
            head = self._own(tx, scene, lock=True)
            return None if head is None else heads.fail_turn(tx, head, error=why, error_code=code)

        try:
            result = await self._desk.write(work)
        except StoreUnavailable:
            return await self._again(scene)  # it will fail again, and be told then
        if result is not None:
            self._desk.engine.publish(result)
        return None

    def _own(self, tx: Transaction, scene: Scene, *, lock: bool) -> Head | None:
        head = heads.read_head(tx, scene.head.project_id, scene.head.agent_id, lock=lock)
        if head is None or (head.owner, head.active_agent_turn_id) != (self._desk.owner, scene.turn_id):
            return None
        return head
