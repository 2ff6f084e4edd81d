"""What random workflows are written with: callees, references by type, and the case that comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FAILURES = "[sys.Failure]"


@dataclass
class Callee:
    """Something a step can call; `optional` parameters have a default or an implicit.

    `keeps_returns`: it has its returns after its catch ran, too.
    """

    name: str
    params: dict[str, str]
    returns: dict[str, str]
    source: str = ""
    optional: frozenset[str] = frozenset()
    is_event: bool = False
    is_schema: bool = False
    is_workflow: bool = False
    keeps_returns: bool = True

    @property
    def given(self) -> dict[str, str]:
        """The returns that are yielded, rather than collected."""
        return {name: kind for name, kind in self.returns.items() if kind != FAILURES}


@dataclass
class Names:
    """References by type, as they may be written at one place, and the steps that one may wait for there."""

    known: dict[str, list[str]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    def add(self, prefix: str, slots: dict[str, str]) -> None:
        for name, kind in slots.items():
            self.known.setdefault(kind, []).append(f"{prefix}{name}")

    def copy(self) -> Names:
        return Names({kind: list(names) for kind, names in self.known.items()}, list(self.steps))

    def without_inputs(self) -> Names:
        known = {kind: [n for n in names if "$." not in n] for kind, names in self.known.items()}
        return Names(known, list(self.steps))


@dataclass(frozen=True)
class Case:
    """A program, the workflow to run and its inputs."""

    source: str
    inputs: dict[str, Any]
    workflow: str = "main.W"
