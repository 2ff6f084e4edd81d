"""A circuit breaker while Redis is unavailable: it uses local state.

A call is never refused, and never fails, because Redis is unavailable. The last known state continues here, failures
of this process open it and successes close it; Redis is tried again after a second at the earliest. When it answers,
its state is used again and the local one is dropped: local outcomes are not reported to others. Operator commands
(force, reset) are never applied locally: they fail.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal, TypeVar

from afl.coordination.breaker_config import BreakerStatus, BreakerStore, Counts, Outcome
from afl.coordination.errors import BreakerStoreError, BreakerUnavailable
from afl.coordination.local_breaker import LocalBreaker

T = TypeVar("T")
LOGGER = logging.getLogger(__name__)
ASK_AGAIN_S = 1.0
PATIENCE_S = 2.0  # a server that hangs counts as unavailable
# A server without memory, or one being replaced, answers but stores nothing.
AWAY = (BreakerUnavailable, BreakerStoreError)


class StandbyBreaker:
    """A `BreakerStore`: the shared one, or the local one while that is unavailable."""

    def __init__(
        self,
        name: str,
        shared: BreakerStore,
        local: LocalBreaker,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._shared = shared
        self._local = local
        self._patience_s = patience_s
        self._clock = clock
        self._seen: BreakerStatus | None = None
        self._away_until: float | None = None  # None: Redis answers

    @property
    def away(self) -> bool:
        """Whether Redis was unavailable at the last call."""
        return self._away_until is not None

    async def enter(self, call_id: str) -> BreakerStatus:
        if self._is_asked():
            try:
                return self._noted(await self._asked(self._shared.enter(call_id)))
            except AWAY as error:
                self._go_local(error)
        return await self._local.enter(call_id)

    async def leave(self, call_id: str, entered: BreakerStatus, outcome: Outcome) -> BreakerStatus:
        if not entered.shared:
            return await self._local.leave(call_id, entered, outcome)
        if self._is_asked():
            try:
                return self._noted(await self._asked(self._shared.leave(call_id, entered, outcome)))
            except AWAY as error:
                self._go_local(error)
        # Its shared slot is released by its lease; here the outcome counts now.
        return await self._local.leave(call_id, replace(entered, epoch=self._local.epoch), outcome)

    async def renew(self, call_id: str, entered: BreakerStatus) -> bool:
        if not entered.shared:
            return await self._local.renew(call_id, entered)
        if self._is_asked():
            try:
                return await self._asked(self._shared.renew(call_id, entered))
            except AWAY as error:
                self._go_local(error)
        return True  # perhaps; the next renewal decides

    async def force(self, state: Literal["open", "closed"]) -> BreakerStatus:
        return self._noted(await self._asked(self._shared.force(state)))

    async def reset(self) -> BreakerStatus:
        return self._noted(await self._asked(self._shared.reset()))

    async def look(self) -> tuple[BreakerStatus, Counts]:
        if self._is_asked():
            try:
                standing, counts = await self._asked(self._shared.look())
            except AWAY as error:
                self._go_local(error)
            else:
                return self._noted(standing), counts
        return await self._local.look()

    async def _asked(self, question: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._patience_s):
                return await question
        except TimeoutError as error:
            raise BreakerUnavailable(
                f"the Redis server did not answer within {self._patience_s:g} s"
            ) from error

    def _is_asked(self) -> bool:
        return self._away_until is None or self._clock() >= self._away_until

    def _noted(self, standing: BreakerStatus) -> BreakerStatus:
        if self.away:
            LOGGER.info("circuit breaker %s: Redis answers again; using the shared state", self._name)
        self._away_until = None
        self._seen = replace(standing, shared=True)
        return self._seen

    def _go_local(self, error: Exception) -> None:
        if not self.away:
            LOGGER.warning(
                "circuit breaker %s: Redis is unavailable, using local state: %s", self._name, error
            )
            if self._seen is not None:
                self._local.adopt(self._seen)
        self._away_until = self._clock() + ASK_AGAIN_S
