"""What a circuit breaker does while Redis is away: it goes by what this process sees.

The policy: a call is never refused, and never fails, because Redis is away. The last state that was seen goes on here,
failures of this process open it and successes close it; Redis is asked again after a second at the earliest. When
it answers, its state rules again and the local one is forgotten: what happened meanwhile is not told to others.
What a person orders (force, reset) is never done here alone: it fails.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal, TypeVar

from afl.coordination.breaker_config import BreakerKeeper, Counts, Outcome, Standing
from afl.coordination.errors import BreakerStoreError, BreakerUnavailable
from afl.coordination.local_breaker import LocalBreaker

T = TypeVar("T")
LOGGER = logging.getLogger(__name__)
ASK_AGAIN_S = 1.0
PATIENCE_S = 2.0  # a server that hangs is away, too
# A server that has no memory left or is being replaced answers, but keeps nothing.
AWAY = (BreakerUnavailable, BreakerStoreError)


class StandbyBreaker:
    """A `BreakerKeeper`: the shared one, or while that cannot be reached the local one."""

    def __init__(
        self,
        name: str,
        shared: BreakerKeeper,
        local: LocalBreaker,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._shared = shared
        self._local = local
        self._patience_s = patience_s
        self._clock = clock
        self._seen: Standing | None = None
        self._away_until: float | None = None  # None: Redis answers

    @property
    def away(self) -> bool:
        """Whether Redis could not be reached when it was last needed."""
        return self._away_until is not None

    async def enter(self, call_id: str) -> Standing:
        if self._is_asked():
            try:
                return self._noted(await self._asked(self._shared.enter(call_id)))
            except AWAY as error:
                self._go_local(error)
        return await self._local.enter(call_id)

    async def leave(self, call_id: str, entered: Standing, outcome: Outcome) -> Standing:
        if not entered.shared:
            return await self._local.leave(call_id, entered, outcome)
        if self._is_asked():
            try:
                return self._noted(await self._asked(self._shared.leave(call_id, entered, outcome)))
            except AWAY as error:
                self._go_local(error)
        # Its place among the shared ones is given back by its lease; here the outcome counts as of now.
        return await self._local.leave(call_id, replace(entered, epoch=self._local.epoch), outcome)

    async def renew(self, call_id: str, entered: Standing) -> bool:
        if not entered.shared:
            return await self._local.renew(call_id, entered)
        if self._is_asked():
            try:
                return await self._asked(self._shared.renew(call_id, entered))
            except AWAY as error:
                self._go_local(error)
        return True  # perhaps; the next renewal will tell

    async def force(self, state: Literal["open", "closed"]) -> Standing:
        return self._noted(await self._asked(self._shared.force(state)))

    async def reset(self) -> Standing:
        return self._noted(await self._asked(self._shared.reset()))

    async def look(self) -> tuple[Standing, Counts]:
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

    def _noted(self, standing: Standing) -> Standing:
        if self.away:
            LOGGER.info("circuit breaker %s: Redis answers again; the shared state rules", self._name)
        self._away_until = None
        self._seen = replace(standing, shared=True)
        return self._seen

    def _go_local(self, error: Exception) -> None:
        if not self.away:
            LOGGER.warning(
                "circuit breaker %s: Redis is away, this process goes by its own: %s", self._name, error
            )
            if self._seen is not None:
                self._local.adopt(self._seen)
        self._away_until = self._clock() + ASK_AGAIN_S
