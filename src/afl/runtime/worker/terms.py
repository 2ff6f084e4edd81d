"""How a worker works, and what its face adds to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from afl.runtime.entities import TaskDefinition
from afl.runtime.worker.task_in_hand import Done


@dataclass(frozen=True)
class Terms:
    """How a worker works."""

    task_list: str = "default"
    slots: int = 5
    poll_seconds: float = 2.0
    lock_ms: int = 0
    lock_every_ms: int = 0
    evaluates: bool = False  # also runs that none of its tasks belong to
    system_tasks: tuple[str, ...] = ()


Counted = Callable[[str, bool], None]


@dataclass
class Hooks:
    """What a face adds: tasks of the system, chores at each poll, and who counts."""

    system: Callable[[TaskDefinition], None] | None = None
    chores: list[Callable[[], object]] = field(default_factory=list)
    counted: Counted | None = None
    told: Callable[[Done, str | None], None] | None = None
