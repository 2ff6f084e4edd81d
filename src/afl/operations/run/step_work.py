"""The work behind a run's steps: where their tasks are, how often they were delivered, how far they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from afl.operations.run.run_log import log_line
from afl.runtime.entities import LogDefinition, TaskDefinition, TaskHold, TaskState


@dataclass
class Work:
    """The tasks of one place of the program together.

    `attempts` counts them all, `deaths` those that ended with their owner's death, `expiries` those whose lease was
    not renewed, `failures` those that failed. `owners` are who works on them now; `held` counts
    why pending ones are not to be claimed, `via` where else they are done ("human:finance"). `progress` is the last
    that one of them told, `message` the last that it said.
    """

    pending: int = 0
    running: int = 0
    over: int = 0
    attempts: int = 0
    deaths: int = 0
    expiries: int = 0
    failures: int = 0
    held: dict[str, int] = field(default_factory=dict)
    owners: list[str] = field(default_factory=list)
    progress: float | None = None
    message: str = ""
    via: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All tasks."""
        return self.pending + self.running + self.over

    @property
    def repeated(self) -> int:
        """Deliveries beyond the first of each task."""
        return max(0, self.attempts - self.total)

    def add(self, task: TaskDefinition) -> None:
        """Count one more task."""
        self.pending += task.state == TaskState.PENDING
        self.running += task.state == TaskState.RUNNING
        self.over += task.state not in (TaskState.PENDING, TaskState.RUNNING)
        self.attempts += task.attempts
        self.deaths += task.deaths
        self.expiries += task.expiries
        self.failures += task.failed_attempts
        if task.hold and task.state == TaskState.PENDING:
            self.held[task.hold] = self.held.get(task.hold, 0) + 1
        if task.hold == TaskHold.ELSEWHERE and task.state == TaskState.PENDING:
            self.via[task.via] = self.via.get(task.via, 0) + 1
        if task.state == TaskState.RUNNING and task.owner not in self.owners:
            self.owners.append(task.owner)

    def tell(self, log: LogDefinition) -> None:
        """Take note of what an agent said last."""
        line = log_line(log)
        self.progress = line.progress if line.progress is not None else self.progress
        self.message = line.text or self.message


def work_of(
    tasks: Iterable[TaskDefinition], logs: Iterable[LogDefinition], places: Mapping[str, str]
) -> dict[str, Work]:
    """Work by place; `places` says where each step stands. Only what runs is asked how far it is."""
    found: dict[str, Work] = {}
    running = set()
    for task in tasks:
        place = places.get(task.step_id)
        if place is not None:
            found.setdefault(place, Work()).add(task)
            if task.state == TaskState.RUNNING:
                running.add(task.step_id)
    for log in logs:
        if log.step_id in running and not log.ends_attempt:
            found[places[log.step_id]].tell(log)
    return found
