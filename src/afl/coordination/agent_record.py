"""An agent as the registry stores and lists it, and the events of its changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ValidationError

from afl.coordination.capabilities import VERSION, capabilities_of
from afl.coordination.errors import AgentRegistryError, RegistryInputError
from afl.coordination.interfaces import Agent, call_optional
from afl.coordination.keys import agent_name, named_agent
from afl.coordination.models import AgentId
from afl.kernel.bounds import cut
from afl.kernel.codec import decode, decode_as, encode
from afl.kernel.errors import PayloadError

LOGGER = logging.getLogger(__name__)
EventKind = Literal["registered", "status_changed", "deregistered", "died", "revived"]
# Metrics of a snapshot change without an event.
_VOLATILE = frozenset({"metrics"})


class AgentEvent(BaseModel):
    """`at` is the server's time in seconds since 1970; statuses come without their metrics."""

    event: EventKind
    agent: str
    at: float
    status: dict[str, Any] | None = None
    previous_status: dict[str, Any] | None = None

    @property
    def agent_id(self) -> AgentId:
        """The agent of the event; `agent` is the same as text, type:instance."""
        return named_agent(self.agent)


def read_event(data: str | bytes) -> AgentEvent | None:
    """Parse an event; None for an invalid one, which is logged."""
    try:
        return AgentEvent.model_validate_json(data)
    except ValidationError as error:
        LOGGER.warning("a message on the registry's channel is not an event: %s", cut(str(error), 500))
        return None


def steady(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a status whose change is an event."""
    return {name: value for name, value in snapshot.items() if name not in _VOLATILE}


@dataclass(frozen=True, slots=True)
class Record:
    """The stored record of an agent. The store adds `last_heartbeat`: its own clock decides who is alive."""

    name: str  # type:instance
    data: str  # a JSON object
    capabilities: str  # a JSON array; empty: none
    status: dict[str, Any]  # the part of the status that events carry


class _Id(msgspec.Struct):
    type: str
    instance: str | None = None


class _Stored(msgspec.Struct):
    """The required fields of a record."""

    agent_id: _Id
    last_heartbeat: float
    heartbeat_ttl_s: float


class _Declared(msgspec.Struct):
    """The required fields of a capability."""

    name: str
    version: Annotated[str, msgspec.Meta(pattern=VERSION)] = "0"
    tags: list[str] = []


async def record_of(agent: Agent, ttl_s: float) -> Record:
    """Query an agent; its answers must be plain data."""
    name = agent_name(agent.agent_id)
    try:
        snapshot = await _told(agent, name, "status_snapshot")
        state = await _told(agent, name, "export_state")
        declared = await capabilities_of(agent)
    except AgentRegistryError:
        raise
    except Exception as error:
        raise AgentRegistryError(
            f"agent {name} cannot say how it is: {type(error).__name__}: {error}"
        ) from error
    data = {
        "name": agent.name,
        "agent_id": {"type": agent.agent_id.type, "instance": agent.agent_id.instance},
        "status": snapshot,
        "heartbeat_ttl_s": ttl_s,
    }
    if state:
        data["state"] = state
    listed = [each.model_dump(mode="json") for each in declared]
    try:
        text = encode(data, what=f"the status and state of agent {name}")
        capabilities = encode(listed, what=f"the capabilities of agent {name}") if listed else ""
    except PayloadError as error:
        raise RegistryInputError(str(error)) from error
    return Record(name, text, capabilities, steady(decode(text)["status"]))


async def _told(agent: Agent, name: str, method: str) -> Mapping[str, Any]:
    """The answer of an optional method; empty when the agent has no such method."""
    answer = await call_optional(agent, method)
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise RegistryInputError(
            f"agent {name}: {method}() returned a {type(answer).__name__}; expected a dict of plain data"
        )
    return answer


def listed(
    name: str, data: str | bytes, capabilities: str | bytes | None, now: float
) -> dict[str, Any] | None:
    """An agent as `list_registered` returns it; None for an unreadable record, which is logged."""
    try:
        checked = decode_as(data, _Stored)
        if capabilities:
            decode_as(capabilities, list[_Declared])
        found = decode(data)
        declared = decode(capabilities) if capabilities else []
        alive = now - checked.last_heartbeat <= checked.heartbeat_ttl_s
    except (ValueError, RecursionError) as error:
        LOGGER.warning("the registry's record of agent %s cannot be read: %s", name, error)
        return None
    entry = {key: found.get(key) for key in ("name", "agent_id", "status", "last_heartbeat")}
    entry |= {"alive": alive, "capabilities": declared}
    if found.get("state"):
        entry["state"] = found["state"]
    return entry


def stored_state(data: str | bytes | None) -> Mapping[str, Any] | None:
    """The state in the agent's previous record; None if there is none or it cannot be read."""
    if data is None:
        return None
    try:
        state = decode(data).get("state")
    except (ValueError, AttributeError, RecursionError) as error:
        LOGGER.warning("the state of an agent cannot be read; it starts without: %s", error)
        return None
    return state if isinstance(state, dict) else None
