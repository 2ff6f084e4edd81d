"""The registry of agents in Redis. Liveness is decided by the server's clock alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from afl.coordination.agent_record import AgentEvent, Record, listed, read_event
from afl.coordination.errors import REGISTRY_ERRORS
from afl.coordination.interfaces import MessageCoordinator
from afl.coordination.keys import Keys, readable
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.coordination.registry_base import DEAD_RETENTION_S, BaseAgentRegistry
from afl.coordination.scripts import Argument, ScriptRunner
from afl.kernel.codec import encode

if TYPE_CHECKING:
    from redis.asyncio import Redis


@dataclass(frozen=True)
class RegistryKeys:
    """The keys of the registry, each with the type of value it must hold, in the order of the scripts."""

    keys: Keys

    @cached_property
    def indexes(self) -> Mapping[str, str]:
        return {self.keys.agents_index: "set", self.keys.capabilities_index: "set"}

    @cached_property
    def lives(self) -> Mapping[str, str]:
        return {f"{self.keys.prefix}:agents:beats": "zset", f"{self.keys.prefix}:agents:dead": "zset"}

    def records(self, names: Sequence[str]) -> Mapping[str, str]:
        kinds: dict[str, str] = {}
        for name in names:
            kinds |= {self.keys.agent(name): "string", self.keys.capabilities(name): "string"}
        return kinds

    def everything(self, names: Sequence[str]) -> Mapping[str, str]:
        return {**self.indexes, **self.lives, **self.records(names)}


class RedisAgentRegistry(BaseAgentRegistry):
    """Redis-backed implementation of AgentRegistry.

    `coordinator` returns the reservations of dead agents; by default one with default options on the same prefix. Pass
    yours if its retries are configured.
    """

    def __init__(
        self,
        redis: Redis,
        key_prefix: str = "ao",
        heartbeat_ttl_s: float = 30.0,
        heartbeat_interval_s: float | None = None,
        enable_events: bool = False,
        *,
        dead_retention_s: float = DEAD_RETENTION_S,
        coordinator: MessageCoordinator | None = None,
    ) -> None:
        if coordinator is None:
            coordinator = RedisMessageCoordinator(redis, key_prefix)
        super().__init__(heartbeat_ttl_s, heartbeat_interval_s, enable_events, dead_retention_s, coordinator)
        self._redis = redis
        self._keys = Keys.under(key_prefix)
        self._scripts = ScriptRunner(redis, REGISTRY_ERRORS)
        self._channel = self._keys.events if enable_events else ""
        self._kinds = RegistryKeys(self._keys)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[AgentEvent]]:
        """See BaseAgentRegistry; the subscription is active when the block begins."""
        async with self._redis.pubsub() as listening:
            async with self._told():
                await listening.subscribe(self._keys.events)

            async def events() -> AsyncGenerator[AgentEvent]:
                async with self._told():
                    async for message in listening.listen():
                        if (
                            message["type"] == "message"
                            and (event := read_event(message["data"])) is not None
                        ):
                            yield event

            async with aclosing(events()) as told:
                yield told

    @asynccontextmanager
    async def _told(self) -> AsyncIterator[None]:
        """Run a script; errors of the driver become errors of the registry."""
        try:
            yield
        except (RedisError, OSError) as error:
            raise await self._scripts.fault(error, None) from error

    async def _read(self, name: str) -> str | bytes | None:
        found: bytes | None = await self._run("registry_read", {self._keys.agent(name): "string"})
        return found

    async def _write(self, records: Sequence[Record], events: Sequence[dict[str, Any] | None]) -> list[str]:
        arguments: list[Argument] = [
            _milliseconds(self.heartbeat_ttl_s),
            _milliseconds(self.heartbeat_ttl_s + self.dead_retention_s),
            self._channel,
        ]
        for record, event in zip(records, events, strict=True):
            told = encode(event) if event is not None else ""
            arguments += [record.name, record.data, record.capabilities, told]
        kinds = self._kinds.everything([record.name for record in records])
        dead = readable(await self._run("registry_write", kinds, arguments))
        return await self._bury(dead) if dead else []

    async def _bury(self, names: Sequence[str]) -> list[str]:
        kinds = self._kinds.everything(names)
        return readable(await self._run("registry_bury", kinds, [self._channel, *names]))

    async def _erase(self, name: str, event: dict[str, Any] | None) -> None:
        kinds = self._kinds.everything([name])
        told = encode(event) if event is not None else ""
        await self._run("registry_erase", kinds, [name, self._channel, told])

    async def _entries(self, *, capable: bool = False) -> list[dict[str, Any]]:
        index = self._keys.capabilities_index if capable else self._keys.agents_index
        start = len(self._keys.capabilities("") if capable else self._keys.agent(""))
        members = await self._run("members", {index: "set"})
        names = [member[start:] for member in readable(members)]
        if not names:
            return []
        now, values = await self._run("registry_list", {**self._kinds.indexes, **self._kinds.records(names)})
        pairs = zip(names, values[::2], values[1::2], strict=True)
        found = (listed(name, data, known, now / 1000) for name, data, known in pairs if data is not None)
        return [entry for entry in found if entry is not None]

    async def _run(self, name: str, kinds: Mapping[str, str], arguments: Sequence[Argument] = ()) -> Any:
        return await self._scripts.run(name, list(kinds), arguments, kinds=kinds)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
