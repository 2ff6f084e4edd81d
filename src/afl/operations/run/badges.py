"""The numbers that people want to see wherever they are: how much runs, and how much waits for them."""

from __future__ import annotations

from dataclasses import dataclass

from afl.runtime.entities import TaskHold
from afl.runtime.persistence import PersistenceAPI, TaskFilter

_MOST = 100  # nobody reads a larger number beside a menu


@dataclass(frozen=True)
class Badges:
    """Open runs, and approvals that wait for a person (at most 100 are counted)."""

    runs: int = 0
    approvals: int = 0


def badges(store: PersistenceAPI) -> Badges:
    """The numbers as of now."""
    waiting = store.find_tasks(TaskFilter(hold=TaskHold.ELSEWHERE, via="human", limit=_MOST))
    return Badges(store.count_open_runs(), len(waiting))
