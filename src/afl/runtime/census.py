"""How much of what a store holds, for those who keep figures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskCount:
    """Open tasks that are alike, and when the oldest of them was created (wall clock, ms)."""

    task_list: str
    name: str
    state: str
    hold: str
    via: str
    count: int
    oldest: int
