"""A run of the fleet as people look at it: its tasks as a tree, each with where it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from afl.fleet.messages import RunDetail, RunView, Status, TaskView
from afl.fleet.workflow import Workflow
from afl.fleet.workflow_json import decode_workflow
from afl.kernel.dag import Dag
from afl.kernel.errors import InputError

_DEEPEST = 12  # deeper ones are drawn there: a chain of a thousand tasks has to fit on a screen


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task: its place in the tree, and where it stands; times are milliseconds of the wall clock."""

    task_id: str
    name: str
    guide: str
    depends: tuple[str, ...]
    joins: tuple[str, ...]  # what it waits for besides the task it is drawn below
    status: Status | None  # None: it has not been its turn
    attempt: int = 1
    exit_code: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    error: str = ""
    allow_failure: bool = False

    @property
    def failure_allowed(self) -> bool:
        """Whether it failed and the run went on as if it had not."""
        return self.allow_failure and self.status is Status.FAILED

    @property
    def word(self) -> str:
        """Where it stands, in words."""
        if self.status is None:
            return "not begun"
        return "failed (allowed)" if self.failure_allowed else self.status.value.lower()

    def duration_ms(self, now: int) -> int | None:
        """How long it took, or takes until now."""
        if self.started_at is None:
            return None
        return max(0, (now if self.ended_at is None else self.ended_at) - self.started_at)


def ending(run: RunView) -> str:
    """Why a run ended as it did; of a canceled one, what was said when it was canceled."""
    if run.status is Status.CANCELED and run.cancel_reason is not None:
        return run.cancel_reason
    return run.error


@dataclass(frozen=True, slots=True)
class RunStanding:
    """A run and its tasks. `workflow` is None when its definition is not known, as of runs that old peers made."""

    run: RunView
    workflow: Workflow | None
    tasks: tuple[TaskLine, ...]

    @property
    def counts(self) -> Counter[Status | None]:
        """How many tasks stand where."""
        return Counter(task.status for task in self.tasks)

    @property
    def allowed_failures(self) -> int:
        """How many tasks failed and were allowed to."""
        return sum(task.failure_allowed for task in self.tasks)

    @property
    def ended(self) -> int:
        """How many tasks have ended, in whatever way."""
        return sum(1 for task in self.tasks if task.status is not None and task.status.is_final)

    def duration_ms(self, now: int) -> int | None:
        """How long the run took, or takes until now."""
        if self.run.started_at is None:
            return None
        return max(0, (now if self.run.ended_at is None else self.run.ended_at) - self.run.started_at)


def standing(detail: RunDetail) -> RunStanding:
    """A run as the principal tells of it."""
    reported = {task.task_id: task for task in detail.tasks}
    try:
        workflow = decode_workflow(bytes(detail.workflow))
    except InputError:  # a run that an old agent began by itself has no definition
        lines = tuple(
            _told(TaskLine(task_id, task_id, "", (), (), None), task) for task_id, task in reported.items()
        )
        return RunStanding(detail.run, None, lines)
    return RunStanding(detail.run, workflow, task_lines(workflow, reported))


def task_lines(workflow: Workflow, reported: Mapping[str, TaskView] | None = None) -> tuple[TaskLine, ...]:
    """The tasks of a workflow, each below the last task it waits for, and where they stand."""
    known = reported or {}
    found = []
    for task_id, place in _places(workflow.dag):
        task = workflow.tasks[task_id]
        line = TaskLine(
            task_id, task.name, place.guide, task.depends, place.joins, None, allow_failure=task.allow_failure
        )
        found.append(_told(line, known.get(task_id)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Place:
    guide: str
    joins: tuple[str, ...]


def _told(line: TaskLine, told: TaskView | None) -> TaskLine:
    """The line with what was told of its task."""
    if told is None:
        return line
    return replace(
        line,
        status=told.status,
        attempt=told.attempt,
        exit_code=told.exit_code,
        started_at=told.started_at,
        ended_at=told.ended_at,
        error=told.error,
    )


def _places(dag: Dag) -> list[tuple[str, _Place]]:
    """Every node once, as a tree: a node hangs below the last of its dependencies, and names the others."""
    rank = {node: number for number, node in enumerate(dag.order)}
    below: dict[str, list[str]] = {node: [] for node in dag.order}
    joins: dict[str, tuple[str, ...]] = {}
    for node in dag.order:
        needs = sorted(dag.dependencies(node), key=rank.__getitem__)
        joins[node] = tuple(needs[:-1])
        if needs:
            below[needs[-1]].append(node)
    found: list[tuple[str, _Place]] = []
    waiting = [(node, "", "") for node in reversed(dag.roots)]
    while waiting:
        node, guide, trunk = waiting.pop()
        found.append((node, _Place(guide, joins[node])))
        branches = below[node]
        for number, branch in reversed(list(enumerate(branches))):
            last = number == len(branches) - 1
            waiting.append((branch, *_guides(trunk, last)))
    return found


def _guides(trunk: str, last: bool) -> tuple[str, str]:
    """What is drawn before a branch, and before what hangs below it."""
    if len(trunk) // 3 >= _DEEPEST:
        return f"{trunk[:-3]}⋯  ", trunk
    return trunk + ("└─ " if last else "├─ "), trunk + ("   " if last else "│  ")
