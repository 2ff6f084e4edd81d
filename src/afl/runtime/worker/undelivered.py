"""Answers of handlers that are not stored yet, by their run."""

from __future__ import annotations

from collections.abc import Iterable

from afl.runtime.entities import TaskDefinition
from afl.runtime.worker.task_in_hand import Done


class Undelivered:
    """For one thread; only `tasks` may be asked for from another."""

    def __init__(self) -> None:
        self._by_run: dict[str, list[Done]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_run)

    def add(self, done: Iterable[Done]) -> None:
        """These are to be stored."""
        for each in done:
            self._by_run.setdefault(each.task.workflow_id, []).append(each)

    def batch(self, most: int) -> dict[str, list[Done]]:
        """The answers of so many runs, at most."""
        return {run: [*group] for run, group in list(self._by_run.items())[:most]}

    def stored(self, batch: dict[str, list[Done]]) -> None:
        """A batch is done with. Others may have come to the same runs meanwhile, and stand behind."""
        for run, group in batch.items():
            left = self._by_run.pop(run)[len(group) :]
            if left:
                self._by_run[run] = left

    def tasks(self) -> list[TaskDefinition]:
        """Those that were answered."""
        return [each.task for group in list(self._by_run.values()) for each in list(group)]
