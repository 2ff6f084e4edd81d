"""Which of the listed agents fit what somebody looks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from afl.coordination.capabilities import fits, numbers
from afl.coordination.errors import RegistryInputError


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for; a question that makes no sense is a RegistryInputError."""

    agent_type: str | None
    capability: str | None
    version: str | None
    tags: tuple[str, ...]
    include_dead: bool

    def __post_init__(self) -> None:
        if self.capability is None and (self.version is not None or self.tags):
            raise RegistryInputError("a version or tags belong to a capability; name the capability, too")
        if self.version is not None:
            numbers(self.version)

    def among(self, entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Those that fit, by type and instance."""
        return sorted((dict(entry) for entry in entries if self._fits(entry)), key=by_name)

    def _fits(self, entry: Mapping[str, Any]) -> bool:
        if not (self.include_dead or entry["alive"]):
            return False
        if self.agent_type not in (None, entry["agent_id"]["type"]):
            return False
        if self.capability is None:
            return True
        return any(fits(each, self.capability, self.version, self.tags) for each in entry["capabilities"])


def by_name(entry: Mapping[str, Any]) -> tuple[str, str]:
    """What lists are sorted by."""
    return entry["agent_id"]["type"], entry["agent_id"]["instance"] or ""
