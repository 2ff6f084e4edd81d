"""Configuration instead of a mixin: which facets are handled by which external system.

    "bridges": {"news.Research": "agent:researcher", "Approve": "human:finance"}

The tasks of such facets are claimed by name, as a handler's are, and handed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from afl.kernel.errors import SettingError
from afl.runtime.program.policies import BRIDGES

KINDS = tuple(kind for kind in BRIDGES.values() if kind != "signal")  # of which the workflow has the names


@dataclass(frozen=True)
class Rules:
    """`via` by the name of a facet; a name without a dot matches in every namespace."""

    vias: dict[str, str]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, Any]]) -> Rules:
        """Parse the setting; SettingError names the wrong line."""
        vias = dict(pairs)
        for name, via in vias.items():
            kind, _, to = via.partition(":") if isinstance(via, str) else ("", "", "")
            if kind not in KINDS or not to:
                raise SettingError(
                    f"bridges: {name} is {via!r}; expected one of {', '.join(f'{each}:NAME' for each in KINDS)}"
                )
        return cls(vias)

    @property
    def names(self) -> list[str]:
        return list(self.vias)

    def via(self, facet: str) -> str | None:
        """Where the tasks of a facet go: by its full name, else by its short name."""
        return self.vias.get(facet) or self.vias.get(facet.rpartition(".")[2])
