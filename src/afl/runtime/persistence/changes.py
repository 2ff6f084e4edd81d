"""What an evaluator or a worker wants stored: the units that a store writes atomically."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.runtime.entities import (
    AttemptDefinition,
    LogDefinition,
    RunDefinition,
    RunnerState,
    TaskDefinition,
    TaskHold,
    TaskState,
)
from afl.runtime.persistence.history import HistoryEvent
from afl.runtime.persistence.topics import (
    ELSEWHERE_TOPIC,
    RUNS_TOPIC,
    history_topic,
    logs_topic,
    run_topic,
    tasks_topic,
)
from afl.runtime.step import StepDefinition
from afl.runtime.types import EventId, StepId, WorkflowId

STEP_CONTINUE = "StepContinue"


@dataclass
class EventDefinition:
    """An event: external work a step asked for, or (type "StepContinue") word that a step may go on.

    `unreadable` says why the payload of a stored event could not be read.
    """

    id: EventId
    step_id: StepId
    workflow_id: WorkflowId
    state: str
    event_type: str
    payload: dict[str, Any] = field(default_factory=dict)

    unreadable = ""  # without a type: it is no field, and not stored


@dataclass(frozen=True, slots=True)
class PublishedValue:
    """A value that a run has published; the latest of each name counts."""

    workflow_id: WorkflowId
    name: str
    value: Any
    updated: int


@dataclass
class IterationChanges:
    """Changes gathered over one or more whole iterations, committed together or not at all.

    `removed` are steps to be deleted with all that is below them and with their tasks, attempts and events, after the
    rest was written. A task with the hold "elsewhere" stays: somebody has not been told yet that it ended.

    With `run` set, the commit is fenced: it has an effect only if the stored run still has that epoch
    (`new_run` says that the run itself is to be inserted).

    `tags` are those of `run` that were added or changed.

    `history` is what happened to the run; it is stored if `run` is set.

    `created_runs` are child runs that nobody has begun. One that its `parent_step` started before stays as it is, but
    for `parent_told`; FencedError if the id is that of any other run.
    """

    created_steps: list[StepDefinition] = field(default_factory=list)
    updated_steps: list[StepDefinition] = field(default_factory=list)
    created_events: list[EventDefinition] = field(default_factory=list)
    updated_events: list[EventDefinition] = field(default_factory=list)
    created_tasks: list[TaskDefinition] = field(default_factory=list)
    updated_tasks: list[TaskDefinition] = field(default_factory=list)
    consumed_events: list[EventId] = field(default_factory=list)
    created_runs: list[RunDefinition] = field(default_factory=list)
    logs: list[LogDefinition] = field(default_factory=list)
    published: dict[str, PublishedValue] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    history: list[HistoryEvent] = field(default_factory=list)
    removed: list[StepId] = field(default_factory=list)
    run: RunDefinition | None = None
    new_run: bool = False

    _created_ids: set[StepId] = field(default_factory=set)
    _updated_ids: dict[StepId, int] = field(default_factory=dict)

    def add_created_step(self, step: StepDefinition) -> None:
        """Record a new step, once per id."""
        if step.id not in self._created_ids:
            self._created_ids.add(step.id)
            self.created_steps.append(step)

    def add_updated_step(self, step: StepDefinition) -> None:
        """Record a changed step; the last change per id counts."""
        position = self._updated_ids.get(step.id)
        if position is None:
            self._updated_ids[step.id] = len(self.updated_steps)
            self.updated_steps.append(step)
        else:
            self.updated_steps[position] = step

    def touch(self, step: StepDefinition) -> None:
        """Record a change of a step the evaluator holds: nothing more to do when it was created in here."""
        if step.id not in self._created_ids:
            self.add_updated_step(step)

    def add_created_event(self, event: EventDefinition) -> None:
        """Record a new event."""
        self.created_events.append(event)

    def add_updated_event(self, event: EventDefinition) -> None:
        """Record a changed event."""
        self.updated_events.append(event)

    def add_created_task(self, task: TaskDefinition) -> None:
        """Record a new task."""
        self.created_tasks.append(task)

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to write."""
        return bool(
            self.created_steps
            or self.updated_steps
            or self.created_events
            or self.updated_events
            or self.created_tasks
            or self.updated_tasks
            or self.consumed_events
            or self.created_runs
            or self.logs
            or self.published
            or self.tags
            or self.removed
        )

    @property
    def changed_ids(self) -> set[StepId]:
        """The steps that are to be written."""
        return {*self._created_ids, *self._updated_ids}

    @property
    def step_count(self) -> int:
        """How many steps are to be written."""
        return len(self.created_steps) + len(self.updated_steps)

    def topics(self, attempts: Sequence[AttemptDefinition]) -> set[str]:
        """The topics that a commit of them notifies, which ends these attempts.

        Those of a task with a concurrency key follow when it is promoted.
        """
        free = (t for t in self.created_tasks if t.state == TaskState.PENDING and not t.concurrency_key)
        topics = {
            ELSEWHERE_TOPIC if task.via else tasks_topic(task.task_list_name)
            for task in free
            if task.hold != TaskHold.TIMER
        }
        if self.created_runs:
            topics.add(RUNS_TOPIC)
        topics.update(logs_topic(each.workflow_id) for each in attempts if each.is_unsuccessful)
        topics.update(logs_topic(log.runner_id) for log in self.logs)
        run = self.run
        if run is not None and self.history:
            topics.add(history_topic(run.workflow_id))
        if run is not None and (run.is_over or run.state == RunnerState.PAUSED):
            topics.add(run_topic(run.workflow_id))
        elif run is not None and not run.owner and not run.settled:
            topics.add(RUNS_TOPIC)
        return topics

    def clear(self) -> None:
        """Forget everything, after a commit."""
        for gathered in (
            self.created_steps,
            self.updated_steps,
            self.created_events,
            self.updated_events,
            self.created_tasks,
            self.updated_tasks,
            self.consumed_events,
            self.created_runs,
            self.logs,
            self.published,
            self.tags,
            self.history,
            self.removed,
        ):
            gathered.clear()
        self._created_ids.clear()
        self._updated_ids.clear()
        self.new_run = False


def subtree(step_id: StepId) -> tuple[str, str]:
    """The range of ids of an element or iteration and all below it: from the first, up to and without the second.

    Behind its number comes a slash, which stands right before the digits.
    """
    return step_id, f"{step_id}0"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the outside work of one step ended.

    `step` is the step as it shall be stored (returns merged, or in Error); it is written only if the stored one
    still stands at EventTransmit. `task` names the holder's claim by uuid, owner and epoch and carries its new
    state; without owner any task of the step is closed (an operator's act).

    With `elsewhere` it is the other side that ended it: the task must still be there, by its epoch and `via`.
    `logs` are entries for the run's log, stored with the rest. `signal_id` is the signal that the task receives with
    it: nothing is stored if another task has received it. `child` is the run whose end this is: its parent is
    told by it.
    """

    step: StepDefinition
    task: TaskDefinition | None
    elsewhere: bool = False
    logs: tuple[LogDefinition, ...] = ()
    signal_id: str = ""
    child: str = ""


def leaves_word(outcome: Outcome) -> bool:
    """Whether work was taken away from another side that does not know it yet."""
    task = outcome.task
    return task is not None and task.via != "" and not outcome.elsewhere
