"""What all registries share: registration, heartbeats, discovery, recovery from dead agents.

A record is alive for `heartbeat_ttl_s` after its last heartbeat, then listed with `alive=False` for `dead_retention_s`,
then deleted. Every heartbeat of any registry sweeps: dead agents cause an event, and their reservations are returned by
`MessageCoordinator.recover_pending`, repeatedly while they are listed.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from afl.coordination.agent_record import AgentEvent, EventKind, Record, record_of, stored_state
from afl.coordination.capabilities import AgentQuery, by_name
from afl.coordination.deferred_work import DeferredWork
from afl.coordination.errors import (
    AgentNameError,
    AgentRegistryError,
    MessageCoordinatorError,
    RegistryInputError,
    RegistryUnavailable,
)
from afl.coordination.interfaces import Agent, AgentRegistry, MessageCoordinator, call_optional
from afl.coordination.keys import agent_name, named_agent
from afl.coordination.models import AgentId
from afl.kernel.canceling import cancel_and_wait

LOGGER = logging.getLogger(__name__)
DEAD_RETENTION_S = 300.0


class BaseAgentRegistry(AgentRegistry):
    """The policy; the abstract methods at the end are the mechanism."""

    def __init__(
        self,
        heartbeat_ttl_s: float,
        heartbeat_interval_s: float | None,
        enable_events: bool,
        dead_retention_s: float,
        coordinator: MessageCoordinator | None,
    ) -> None:
        interval = heartbeat_ttl_s / 3 if heartbeat_interval_s is None else heartbeat_interval_s
        if not 0 < interval < heartbeat_ttl_s:
            raise RegistryInputError(
                f"heartbeat_interval_s is {interval!r} and heartbeat_ttl_s {heartbeat_ttl_s!r}; expected an interval "
                "above 0 and below the TTL, or every agent dies between two heartbeats"
            )
        if not dead_retention_s >= 0:
            raise RegistryInputError(
                f"dead_retention_s is {dead_retention_s!r}; expected seconds, at least 0"
            )
        self.heartbeat_ttl_s = float(heartbeat_ttl_s)
        self.heartbeat_interval_s = float(interval)
        self.dead_retention_s = float(dead_retention_s)
        self.enable_events = enable_events
        self._coordinator = coordinator
        self._agents: dict[str, Agent] = {}
        self._written: dict[str, Record] = {}
        self._unreached: dict[
            str, Agent
        ] = {}  # registered while the server was unavailable; heartbeats retry
        self._deferred = DeferredWork("the registry")
        self._order = asyncio.Lock()  # a heartbeat must not restore what is being deregistered
        self._beating: asyncio.Task[None] | None = None

    # Registering

    def register(self, agent: Agent) -> None:
        """Register in the background; `flush` raises errors. Without a running loop it waits for the next await."""
        _require_agent(agent)
        self._deferred.add(self._register_or_keep, agent)

    def deregister(self, agent_id: AgentId) -> None:
        """Deregister in the background; see `register`."""
        registry_name(agent_id)
        self._deferred.add(self.aderegister, agent_id)

    async def aregister(self, agent: Agent) -> None:
        """Restore the agent's state from its previous record, if there is one, then write its record."""
        name = _require_agent(agent)
        async with self._order:
            state = stored_state(await self._read(name))
            record = await self._restored(agent, name, state)
            await self._write([record], [self._event("registered", record)])
            self._agents[name] = agent
            self._written[name] = record
            self._unreached.pop(name, None)

    async def _restored(self, agent: Agent, name: str, state: Mapping[str, Any] | None) -> Record:
        """The agent's record once its state is restored; bounded in time, so that it cannot delay other heartbeats."""
        try:
            async with asyncio.timeout(self.heartbeat_ttl_s):
                if state is not None:
                    await call_optional(agent, "import_state", dict(state))
                return await record_of(agent, self.heartbeat_ttl_s)
        except AgentRegistryError:
            raise
        except Exception as error:
            raise AgentRegistryError(
                f"agent {name} did not take its state back ({type(error).__name__}: {error}); it is not registered"
            ) from error

    async def aderegister(self, agent_id: AgentId) -> None:
        """Delete an agent's record, whichever registry wrote it."""
        name = registry_name(agent_id)
        async with self._order:
            for kept in (self._agents, self._written, self._unreached):
                kept.pop(name, None)
            await self._erase(name, {"event": "deregistered", "agent": name} if self.enable_events else None)

    async def flush(self) -> None:
        """Wait for pending calls of `register` and `deregister`; raises their errors."""
        await self._deferred.flush()

    # Looking

    async def list_registered(self) -> list[dict[str, Any]]:
        """All agents by type and instance, dead ones included until their retention ends; see AgentRegistry."""
        await self._deferred.settle()
        return sorted(await self._entries(), key=by_name)

    async def get(self, agent_id: AgentId) -> dict[str, Any] | None:
        """One agent as it is listed; None if it is not."""
        name = registry_name(agent_id)
        return next((each for each in await self.list_registered() if _name_of(each) == name), None)

    async def discover(
        self,
        agent_type: str | None = None,
        capability: str | None = None,
        *,
        version: str | None = None,
        tags: Iterable[str] = (),
        include_dead: bool = False,
    ) -> list[dict[str, Any]]:
        """Live agents of a type, or with a capability, or both; `capabilities` shows the match."""
        wanted = AgentQuery(agent_type, capability, version, tuple(tags), include_dead)
        await self._deferred.settle()
        return wanted.among(await self._entries(capable=capability is not None))

    @abstractmethod
    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[AgentEvent]]:
        """`async with registry.watch() as events:` receives every later event of all registries that publish."""

    # Heartbeats

    def start_heartbeats(self) -> None:
        """Start background heartbeat task; the first heartbeat is sent at once. Does nothing if it runs."""
        if self._beating is None or self._beating.done():
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError as error:
                raise AgentRegistryError(
                    "heartbeats need a running event loop; call start_heartbeats from a coroutine"
                ) from error
            self._beating = loop.create_task(self._beat_on())

    def stop_heartbeats(self) -> None:
        """Stop background heartbeat task. Agents stay registered until their TTL ends."""
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    async def close(self, *, deregister: bool = False) -> None:
        """Stop the heartbeats and wait for pending work; `deregister` also deletes this registry's agents at once."""
        beating = self._beating
        self.stop_heartbeats()
        if beating is not None:
            await cancel_and_wait([beating])
        if deregister:
            for agent in list(self._agents.values()):
                self.deregister(agent.agent_id)
        await self.flush()

    async def beat(self) -> int:
        """One heartbeat of all agents here, in one round trip, then a sweep; the number of returned messages."""
        await self._deferred.settle()
        await self._reach()
        fresh = [record for record in await self._fresh_records() if record is not None]
        async with self._order:
            current = [record for record in fresh if record.name in self._agents]
            dead = await self._write(current, [self._changed(record) for record in current])
            self._written.update({record.name: record for record in current})
        return sum([await self._recovered(name) for name in dead])

    async def _beat_on(self) -> None:
        """A failed heartbeat must not stop later ones: all agents here would die."""
        failing = False
        while True:
            try:
                await self.beat()
                failing = False
            except AgentRegistryError as error:
                LOGGER.log(logging.DEBUG if failing else logging.WARNING, "a heartbeat failed: %s", error)
                failing = True
            except Exception:
                LOGGER.exception("a heartbeat failed with an unexpected error")
            await asyncio.sleep(self.heartbeat_interval_s)

    async def _reach(self) -> None:
        """Register agents that came while the server was unavailable; one that fails must not delay the others."""
        for name, agent in list(self._unreached.items()):
            try:
                await self.aregister(agent)
            except RegistryUnavailable:
                raise
            except AgentRegistryError as error:
                del self._unreached[name]
                LOGGER.warning("agent %s is not registered: %s", name, error)

    async def _fresh_records(self) -> Sequence[Record | None]:
        return await asyncio.gather(*(self._fresh(name, agent) for name, agent in list(self._agents.items())))

    async def _fresh(self, name: str, agent: Agent) -> Record | None:
        """An agent whose status fails or takes too long is still alive: its last record is written again."""
        try:
            return await asyncio.wait_for(record_of(agent, self.heartbeat_ttl_s), self.heartbeat_interval_s)
        except (AgentRegistryError, TimeoutError) as error:
            LOGGER.warning("agent %s keeps its last record: %s", name, error or "no answer in time")
            return self._written.get(name)

    async def _recovered(self, name: str) -> int:
        if self._coordinator is None:
            return 0
        try:
            count = await self._coordinator.recover_pending(named_agent(name))
        except MessageCoordinatorError as error:
            LOGGER.warning("the reservations of dead agent %s could not be returned yet: %s", name, error)
            return 0
        if count:
            LOGGER.info("agent %s is dead: %d reserved messages were returned", name, count)
        return count

    async def _register_or_keep(self, agent: Agent) -> None:
        try:
            await self.aregister(agent)
        except RegistryUnavailable:
            self._unreached[registry_name(agent.agent_id)] = agent
            raise

    # Events

    def _event(self, kind: EventKind, record: Record, **more: Any) -> dict[str, Any] | None:
        if not self.enable_events:
            return None
        return {"event": kind, "agent": record.name, "status": record.status, **more}

    def _changed(self, record: Record) -> dict[str, Any] | None:
        before = self._written[record.name].status
        if before == record.status:
            return None
        return self._event("status_changed", record, previous_status=before)

    # Mechanism

    @abstractmethod
    async def _read(self, name: str) -> str | bytes | None:
        """The record of an agent, if there is one."""

    @abstractmethod
    async def _write(self, records: Sequence[Record], events: Sequence[dict[str, Any] | None]) -> list[str]:
        """Write records and indexes, alive from now; the dead agents to recover from."""

    @abstractmethod
    async def _erase(self, name: str, event: dict[str, Any] | None) -> None:
        """Delete a record and its index entries; publishes an event if there was one."""

    @abstractmethod
    async def _entries(self, *, capable: bool = False) -> list[dict[str, Any]]:
        """All listed agents, or only those with capabilities; index entries without a record are deleted."""


def registry_name(agent_id: AgentId) -> str:
    """`type:instance`; RegistryInputError for one that is not valid in a key."""
    if not isinstance(agent_id, AgentId):
        raise RegistryInputError(f"agent_id is {str(agent_id)[:80]!r}; expected an AgentId")
    try:
        return agent_name(agent_id)
    except AgentNameError as error:
        raise RegistryInputError(str(error)) from error


def _require_agent(agent: Agent) -> str:
    if not isinstance(agent, Agent):
        raise RegistryInputError(f"{type(agent).__name__} is not an agent; expected agent_id and name")
    return registry_name(agent.agent_id)


def _name_of(entry: dict[str, Any]) -> str:
    return registry_name(AgentId(**entry["agent_id"]))
