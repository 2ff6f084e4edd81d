"""Runs a turn to its end or its next suspension, across outages of the store."""

from __future__ import annotations

import asyncio
import logging

from afl.kernel.database import Transaction
from afl.kernel.error_text import text_of
from afl.kernel.errors import AgentFlowError, FencedError, StoreUnavailable
from afl.turns.model import Head, L0Result
from afl.turns.orchestration.fork_join import join_child
from afl.turns.outages import STORE_BACKOFF
from afl.turns.protocol import headers as names
from afl.turns.store import heads
from afl.turns.transitions import fail_turn
from afl.turns.worker.services import WorkerServices
from afl.turns.worker.turn_run import TurnRun
from afl.turns.worker.turn_state import TurnState

_log = logging.getLogger("afl.turns")


class TurnDriver:
    """For one worker. A turn it runs suspends or ends in the store, or is another worker's: it is never abandoned."""

    def __init__(self, services: WorkerServices) -> None:
        self._services = services

    async def drive(self, state: TurnState) -> Head | None:
        """Run a turn; after an outage it continues from the store. The last head of the turn, if the turn ended."""
        current: TurnState | None = state
        failures = 0
        while current is not None:
            run = self._run_of(current)
            try:
                await run.run()
                return current.head if run.has_ended else None
            except FencedError as error:
                _log.info("%s", error)
                return None
            except StoreUnavailable as error:
                failures += 1
                _log.warning("turn %s waits for the store: %s", current.turn_id, error)
                await asyncio.sleep(STORE_BACKOFF.delay(failures))
                current = await self._reload(current)
            except Exception as error:
                known = isinstance(error, AgentFlowError)
                _log.error("turn %s failed: %s", current.turn_id, error, exc_info=not known)
                again = await self._fail(current, error)
                if again is None:
                    return current.head
                current = again
        return None

    def _run_of(self, state: TurnState) -> TurnRun:
        if not state.profile.served or state.is_action:
            return TurnRun(self._services, state)
        from afl.turns.served.run import ServedRun  # noqa: PLC0415  needs an extra, and a second

        return ServedRun(self._services, state)

    async def join_parent(self, head: Head) -> None:
        """A turn ended: its parent may wait for it. The watchdog looks again should this fail."""
        if names.PARENT_TURN not in head.context_headers:
            return
        turn = head.active_agent_turn_id or ""
        try:
            signals = await self._services.write(lambda tx: join_child(tx, head.project_id, turn))
        except AgentFlowError as error:
            _log.warning("the batch of turn %s is left to the watchdog: %s", turn, error)
            return
        self._services.engine.tell(*signals)
        self._services.engine.relay.notify()

    async def _reload(self, state: TurnState) -> TurnState | None:
        """The turn as the store has it now, if it is still this worker's: the last commit may have succeeded."""

        def work(tx: Transaction) -> TurnState | None:
            head = self._own_head(tx, state, lock=False)
            return None if head is None else self._services.states.reload(tx, head, state.step_id)

        failures = 0
        while True:
            try:
                return await self._services.engine.database.run("read", work)
            except StoreUnavailable:
                failures += 1
                await asyncio.sleep(STORE_BACKOFF.delay(failures))

    async def _fail(self, state: TurnState, error: Exception) -> TurnState | None:
        """Fail the turn with the error. A state: the store was unreachable, and the turn is run once more."""
        code = str(getattr(error, "code", "internal_error"))
        why = str(error) if isinstance(error, AgentFlowError) else f"{type(error).__name__}: {text_of(error)}"

        def work(tx: Transaction) -> L0Result | None:
            head = self._own_head(tx, state, lock=True)
            return None if head is None else fail_turn(tx, head, error=why, error_code=code)

        try:
            await self._services.engine.run(work)
        except StoreUnavailable:
            return await self._reload(state)
        return None

    def _own_head(self, tx: Transaction, state: TurnState, *, lock: bool) -> Head | None:
        head = heads.read_head(tx, state.head.project_id, state.head.agent_id, lock=lock)
        if head is None or (head.owner, head.active_agent_turn_id) != (self._services.owner, state.turn_id):
            return None
        return head
