"""What the model finds out: how blocks went, which work was asked for, and what a run must come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.model_values import Failure, Json


@dataclass(frozen=True)
class Work:
    """One piece of outside work: which step asked for it, with what, and whether it went well."""

    step: str
    facet: str
    payload: str
    failed: bool


@dataclass
class Verdict:
    """What a run must come to."""

    outputs: Json
    failure: Failure | None
    work: list[Work] = field(default_factory=list)
    logs: int = 0
    signals: list[Signal] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    published: dict[str, list[Any]] = field(default_factory=dict)  # what may be the last value of each name


@dataclass(frozen=True)
class Signal:
    """A signal that a step receives."""

    step: str
    facet: str
    name: str


@dataclass
class Child:
    """A child run that a step starts; without a verdict it is one that never ends by itself."""

    step: str
    workflow: str
    inputs: Json
    verdict: Verdict | None
    run_id: str = ""
    detached: bool = False
    awaited: bool = True


@dataclass
class Yield:
    """Values for the owner `level` owners up."""

    level: int
    values: Json


@dataclass
class Outcome:
    """How a block went: what it yielded, in program order, and its first failure, in program order."""

    yields: list[Yield] = field(default_factory=list)
    failure: Failure | None = None

    def add(self, other: Outcome) -> None:
        self.yields += other.yields
        self.failure = self.failure or other.failure


def merged(yields: list[Yield]) -> Json:
    """The values that yields come to: lists are joined, other values replace each other."""
    values: Json = {}
    for each in yields:
        for name, value in each.values.items():
            joined = isinstance(value, list) and isinstance(values.get(name), list)
            values[name] = values[name] + value if joined else value
    return values


def split(yields: list[Yield]) -> tuple[list[Yield], list[Yield]]:
    """Those for the owner itself, and those for the ones above it."""
    own = [each for each in yields if each.level == 0]
    return own, [Yield(each.level - 1, each.values) for each in yields if each.level > 0]
