"""A circuit breaker whose state is shared through Redis by every process that uses its name.

    closed ──failure_threshold failures──▶ open ──timeout_seconds──▶ half open ──success_threshold successes──▶ closed
                                            ▲                           │
                                            └── a failure, or undecided for recovery_timeout_seconds

Every transition is one script on the server's clock, so no two processes can overwrite each other. A half-open call
holds a leased slot: it is released when the call is canceled, and expires when its process dies. Any `Exception` of
the function is a failure, except those in `ignored`, which a healthy service may raise; a cancellation is neither
failure nor success.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from afl.coordination.breaker_config import (
    COUNTS,
    BreakerStatus,
    BreakerStore,
    CircuitBreakerConfig,
    CircuitBreakerState,
    Outcome,
)
from afl.coordination.errors import BreakerInputError, CircuitBreakerOpenError
from afl.coordination.local_breaker import LocalBreaker
from afl.coordination.redis_breaker import RedisBreaker
from afl.coordination.standby_breaker import StandbyBreaker
from afl.kernel import telemetry
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.user_thread import result_of

if TYPE_CHECKING:
    from redis.asyncio import Redis

LOGGER = logging.getLogger(__name__)


class CircuitBreaker:
    """`await breaker.call(function, ...)`, or `@breaker` on the function.

    With `redis=None` the state is local to this object. While Redis is unavailable it is local to the process: see
    standby_breaker. `clock` gives the milliseconds for that state; Redis has its own.
    """

    def __init__(
        self,
        redis: Redis | None,
        name: str,
        config: CircuitBreakerConfig | None = None,
        key_prefix: str = "ao",
        *,
        fallback: Callable[..., Any] | None = None,
        ignored: tuple[type[Exception], ...] = (),
        clock: Callable[[], int] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise BreakerInputError(
                f"the name of a circuit breaker is {name!r}; expected a text that is not empty"
            )
        self.name = name
        self.config = CircuitBreakerConfig() if config is None else config
        self._fallback = fallback
        self._ignored = ignored
        self._seen: CircuitBreakerState | None = None
        local = LocalBreaker(self.config, clock)
        self._keeper: BreakerStore = local
        if redis is not None:
            shared = RedisBreaker(redis, name, self.config, key_prefix)
            self._keeper = StandbyBreaker(name, shared, local)

    async def call(
        self, func: Callable[..., Any], *args: Any, correlation_id: str | None = None, **kwargs: Any
    ) -> Any:
        """Call through the breaker; CircuitBreakerOpenError, or the result of the fallback, when it refuses.

        A plain function runs in a thread, so that it does not block the loop. `correlation_id` is for the log and the
        error; the function does not get it.
        """
        return await self._called(self._fallback, correlation_id, func, args, kwargs)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """As a decorator; the result is a coroutine function."""
        return self.protect(fallback=self._fallback)(func)

    def protect(
        self, *, fallback: Callable[..., Any] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Awaitable[Any]]]:
        """`@breaker.protect(fallback=other)`: a decorator whose fallback gets the same arguments."""

        def decorate(func: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
            @functools.wraps(func)
            async def protected(*args: Any, **kwargs: Any) -> Any:
                return await self._called(fallback, None, func, args, kwargs)

            return protected

        return decorate

    async def get_state(self) -> CircuitBreakerState:
        """The state a call would find now."""
        standing, _ = await self._keeper.look()
        return standing.state

    async def is_call_permitted(self) -> bool:
        """Whether a call would be let through now; takes no slot."""
        standing, _ = await self._keeper.look()
        return standing.permitted

    async def get_metrics(self) -> dict[str, Any]:
        """Counts of all processes, the state, the configuration; times in seconds since 1970, None: never."""
        standing, counts = await self._keeper.look()
        return {
            "name": self.name,
            "state": standing.state.value,
            "forced": standing.forced,
            "failure_count": standing.failure_count,
            **{name: counts.counts.get(name, 0) for name in COUNTS},
            "half_open_calls": standing.running,
            "half_open_successes": standing.successes,
            "last_failure_time": counts.last_failure_time / 1000 or None,
            "last_success_time": counts.last_success_time / 1000 or None,
            "state_changed_at": standing.changed_at / 1000 or None,
            "retry_after_seconds": standing.retry_after / 1000 if standing.retry_after >= 0 else None,
            "shared": standing.shared,
            "config": self.config.plain(),
        }

    async def force_open(self) -> None:
        """Refuse every call, in every process, until `force_close` or `reset`."""
        self._log(await self._keeper.force("open"), None)

    async def force_close(self) -> None:
        """Let calls through again, with empty counts."""
        self._log(await self._keeper.force("closed"), None)

    async def reset(self) -> None:
        """Reset: closed, empty counts, no metrics."""
        self._log(await self._keeper.reset(), None)

    async def _called(
        self,
        fallback: Callable[..., Any] | None,
        correlation_id: str | None,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        call_id = uuid.uuid4().hex
        entered = await self._keeper.enter(call_id)
        self._log(entered, correlation_id)
        if not entered.permitted:
            refusal = self._refusal(entered, correlation_id)
            if fallback is None:
                raise refusal
            LOGGER.debug("%s; calling the fallback", refusal)
            return await result_of(fallback, args, kwargs)
        outcome: Outcome = "none"
        try:
            async with self._place_kept(call_id, entered):
                result = await result_of(func, args, kwargs)
            outcome = "success"
            return result
        except Exception as error:
            outcome = "success" if isinstance(error, self._ignored) else "failure"
            raise
        finally:
            await self._leave(call_id, entered, outcome, correlation_id)

    async def _leave(
        self, call_id: str, entered: BreakerStatus, outcome: Outcome, correlation_id: str | None
    ) -> None:
        """Report the outcome even when this call is being canceled: the slot must be released."""
        leaving = asyncio.ensure_future(self._keeper.leave(call_id, entered, outcome))
        try:
            self._log(await asyncio.shield(leaving), correlation_id)
        except asyncio.CancelledError:
            self._log(await leaving, correlation_id)
            raise

    @asynccontextmanager
    async def _place_kept(self, call_id: str, entered: BreakerStatus) -> AsyncIterator[None]:
        """Renew the lease of a half-open slot while the call lasts."""
        if entered.state is not CircuitBreakerState.HALF_OPEN:
            yield
            return
        renewing = asyncio.create_task(self._renew(call_id, entered))
        try:
            yield
        finally:
            await cancel_and_wait([renewing])

    async def _renew(self, call_id: str, entered: BreakerStatus) -> None:
        held = True
        while held:
            await asyncio.sleep(self.config.slot_lease_seconds / 3)
            held = await self._keeper.renew(call_id, entered)
        LOGGER.info(
            "circuit breaker %s: a half-open call lost its slot; its outcome will not count", self.name
        )

    def _refusal(self, standing: BreakerStatus, correlation_id: str | None) -> CircuitBreakerOpenError:
        text, seconds = f"Circuit breaker {self.name} is OPEN", None
        if standing.state is CircuitBreakerState.HALF_OPEN:
            text = f"Circuit breaker {self.name} is HALF_OPEN with max calls reached"
        elif standing.forced:
            text += "; it was forced open and has to be closed by hand"
        else:
            seconds = standing.retry_after / 1000
            text += f"; calls are let through again in {seconds:.1f} s"
        return CircuitBreakerOpenError(text, retry_after=seconds, correlation_id=correlation_id)

    def _log(self, standing: BreakerStatus, correlation_id: str | None) -> None:
        """Log the changes since the last call."""
        before, self._seen = self._seen, standing.state
        if before is None or before is standing.state:
            return
        level = logging.WARNING if standing.state is CircuitBreakerState.OPEN else logging.INFO
        LOGGER.log(
            level,
            "circuit breaker %s: %s -> %s%s",
            self.name,
            before.value,
            standing.state.value,
            f" (correlation id {correlation_id})" if correlation_id else "",
        )
        telemetry.count("afl.breaker.changes", breaker=self.name, state=standing.state.value)
