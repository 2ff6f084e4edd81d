"""Capabilities that agents declare, and the agents that match a query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from afl.coordination.errors import RegistryInputError
from afl.coordination.interfaces import call_optional

VERSION = r"\A[0-9]{1,18}(\.[0-9]{1,18})*\Z"
_VERSION = re.compile(VERSION)


class Capability(BaseModel):
    """One capability of an agent. Further fields are kept."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(..., min_length=1)
    version: str = "1.0.0"
    description: str = ""
    tags: list[str] = Field(default_factory=list)

    @field_validator("version")
    @classmethod
    def _is_numbers(cls, version: str) -> str:
        if _VERSION.fullmatch(version) is None:
            raise ValueError("a version is numbers with dots between them, as 2.10.0")
        return version

    @field_validator("tags", mode="before")
    @classmethod
    def _in_order(cls, tags: Any) -> Any:
        return sorted(tags) if isinstance(tags, (set, frozenset)) else tags


CapabilityLike = str | Mapping[str, Any] | Capability


async def capabilities_of(agent: object) -> list[Capability]:
    """What an agent declares: the result of `get_capabilities()`, else its attribute `capabilities`."""
    told = await call_optional(agent, "get_capabilities")
    declared = getattr(agent, "capabilities", None) if told is None else told
    return parsed(() if declared is None else declared)


def parsed(declared: Iterable[CapabilityLike]) -> list[Capability]:
    """Capabilities from names, maps or objects, sorted by name."""
    if isinstance(declared, (str, Mapping)):
        raise RegistryInputError(
            f"capabilities are {declared!r}; expected a list of names, maps or Capability"
        )
    return sorted((_one(each) for each in declared), key=lambda each: each.name)


def _one(declared: CapabilityLike) -> Capability:
    if isinstance(declared, Capability):
        return declared
    try:
        return Capability.model_validate({"name": declared} if isinstance(declared, str) else declared)
    except ValidationError as error:
        first = error.errors()[0]
        raise RegistryInputError(
            f"capability {declared!r}: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
        ) from error


def fits(
    capability: Mapping[str, Any], name: str, version: str | None = None, tags: Iterable[str] = ()
) -> bool:
    """Whether a stored capability matches the requested one."""
    if capability["name"] != name or not set(tags) <= set(capability.get("tags", ())):
        return False
    return version is None or numbers(capability.get("version", "0")) >= numbers(version)


def numbers(version: str) -> tuple[int, ...]:
    """A comparable version; trailing zeros do not count."""
    if _VERSION.fullmatch(version) is None:
        raise RegistryInputError(
            f"version is {version!r}; expected numbers with dots between them, as 2.10.0"
        )
    found = [int(part) for part in version.split(".")]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


@dataclass(frozen=True, slots=True)
class AgentQuery:
    """A query for agents; an invalid one is a RegistryInputError."""

    agent_type: str | None
    capability: str | None
    version: str | None
    tags: tuple[str, ...]
    include_dead: bool

    def __post_init__(self) -> None:
        if self.capability is None and (self.version is not None or self.tags):
            raise RegistryInputError("a version or tags belong to a capability; name the capability as well")
        if self.version is not None:
            numbers(self.version)

    def among(self, entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The matching agents, by type and instance."""
        return sorted((dict(entry) for entry in entries if self._matches(entry)), key=by_name)

    def _matches(self, entry: Mapping[str, Any]) -> bool:
        if not (self.include_dead or entry["alive"]):
            return False
        if self.agent_type not in (None, entry["agent_id"]["type"]):
            return False
        if self.capability is None:
            return True
        return any(fits(each, self.capability, self.version, self.tags) for each in entry["capabilities"])


def by_name(entry: Mapping[str, Any]) -> tuple[str, str]:
    """The sort key of lists."""
    return entry["agent_id"]["type"], entry["agent_id"]["instance"] or ""
