"""A circuit breaker's state in Redis: every transition is one run of lua/breaker.lua."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from afl.coordination.breaker_config import (
    COUNTS,
    BreakerStatus,
    CircuitBreakerConfig,
    CircuitBreakerState,
    Counts,
    Outcome,
)
from afl.coordination.errors import BREAKER_ERRORS, BreakerInputError, BreakerStoreError
from afl.coordination.keys import Keys, readable
from afl.coordination.scripts import Argument, ScriptRunner
from afl.kernel.bounds import LONGEST_NAME, is_name
from afl.kernel.codec import encode

if TYPE_CHECKING:
    from redis.asyncio import Redis


@dataclass(frozen=True)
class BreakerKeys:
    """The keys of one breaker, in the order of the script."""

    keys: Keys
    name: str

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """Each key with the type of value it must hold."""
        prefix = self.keys.prefix
        return {
            self.keys.breaker_state(self.name): "hash",
            f"{prefix}:cb:slots:{self.name}": "zset",
            f"{prefix}:cb:window:{self.name}": "hash",
            self.keys.breaker_metrics(self.name): "hash",
            self.keys.breakers_index: "set",
        }


class RedisBreaker:
    """A `BreakerStore` on a server. `stored`: read with the stored configuration of the callers."""

    def __init__(
        self,
        redis: Redis,
        name: str,
        config: CircuitBreakerConfig,
        key_prefix: str = "ao",
        *,
        stored: bool = False,
    ) -> None:
        if not is_name(name):
            raise BreakerInputError(
                f"the name of a circuit breaker is {name[:80]!r}; expected 1 to {LONGEST_NAME} printable characters"
            )
        self._name = name
        self._keys = BreakerKeys(Keys.under(key_prefix), name)
        self._config = encode(config.milliseconds())
        self._scripts = ScriptRunner(redis, BREAKER_ERRORS)
        self._stored = stored

    async def enter(self, call_id: str) -> BreakerStatus:
        return self._standing(await self._run("enter", call_id, self._name))

    async def leave(self, call_id: str, entered: BreakerStatus, outcome: Outcome) -> BreakerStatus:
        return self._standing(await self._run("leave", call_id, entered.epoch, outcome))

    async def renew(self, call_id: str, entered: BreakerStatus) -> bool:
        return bool(await self._run("renew", call_id, entered.epoch))

    async def force(self, state: Literal["open", "closed"]) -> BreakerStatus:
        return self._standing(await self._run("force", state, self._name))

    async def reset(self) -> BreakerStatus:
        return self._standing(await self._run("reset"))

    async def look(self) -> tuple[BreakerStatus, Counts]:
        row, pairs = await self._run("look", *(["stored"] if self._stored else []))
        with self._reading():
            return _standing(row), _counts(dict(zip(pairs[::2], pairs[1::2], strict=True)))

    def _standing(self, row: list[Any]) -> BreakerStatus:
        with self._reading():
            return _standing(row)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """An unreadable value is an error that says so."""
        try:
            yield
        except (ValueError, TypeError, AttributeError) as error:
            raise BreakerStoreError(
                f"what is stored of circuit breaker {self._name!r} cannot be read ({error}); reset it"
            ) from error

    async def _run(self, verb: str, *arguments: Argument) -> Any:
        kinds = self._keys.kinds
        return await self._scripts.run("breaker", list(kinds), [verb, self._config, *arguments], kinds=kinds)


def _counts(found: Mapping[bytes, bytes]) -> Counts:
    known = {name: int(found.get(name.encode(), 0)) for name in COUNTS}
    return Counts(known, int(found.get(b"last_failure_time", 0)), int(found.get(b"last_success_time", 0)))


def _standing(row: list[Any]) -> BreakerStatus:
    permitted, state, epoch, failures, successes, running, changed_at, forced, retry_after, now = row
    return BreakerStatus(
        permitted=bool(permitted),
        state=CircuitBreakerState(state.decode()),
        epoch=epoch,
        failure_count=failures,
        successes=successes,
        running=running,
        changed_at=changed_at,
        forced=bool(forced),
        retry_after=retry_after,
        now=now,
        shared=True,
    )


async def known_breakers(redis: Redis, key_prefix: str = "ao") -> list[str]:
    """The names of all stored breakers; sorted."""
    keys, scripts = Keys.under(key_prefix), ScriptRunner(redis, BREAKER_ERRORS)
    index = {keys.breakers_index: "set"}
    names = readable(await scripts.run("members", list(index), kinds=index))
    stored = [key(name) for name in names for key in (keys.breaker_state, keys.breaker_metrics)]
    found = await scripts.run("breakers", [keys.breakers_index, *stored], names, kinds=index)
    return sorted(readable(found))
