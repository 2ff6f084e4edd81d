"""How large the pieces are in which a run is evaluated and stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """When to commit and how much to keep in memory.

    A foreach has its window's steps half done at the end of an iteration: they are written twice if a commit falls
    there, so commits are to be larger than windows.
    """

    commit_steps: int = 4096
    commit_seconds: float = 0.100
    foreach_window: int = 256
    cached_steps: int = 50_000
