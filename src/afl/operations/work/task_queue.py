"""Tasks, one line each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError
from afl.operations.parameters import Limit, Skip, TaskStateName, about
from afl.operations.reason.snapshot import DiagnosticSnapshot
from afl.operations.reason.subjects import UnknownSubject
from afl.operations.run import run_store
from afl.operations.run.attempts import AttemptView, step_attempts
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.program import paths
from afl.runtime.types import WorkflowId

_OPEN = (TaskState.RUNNING, TaskState.PENDING)


@dataclass(frozen=True)
class TaskLine:
    """One task. Of its attempts, `deaths` ended with their owner's death, `expiries` were not renewed, `failures`
    failed.
    """

    task: str
    name: str
    state: str
    hold: str
    task_list: str
    run: str
    step: str
    step_id: str
    owner: str
    attempts: int
    deaths: int
    expiries: int
    failures: int
    age_ms: int
    error: str
    via: str = ""  # where else it is worked on: "human:finance"
    waits: str = ""  # what keeps a pending task back: its hold, or "rate", "retry" or "delayed"


@dataclass(frozen=True)
class TaskDetail:
    """A task with what it was given and its policies. `..._in_ms` count from now on; None: there is none."""

    line: TaskLine
    created: int
    priority: int
    data: dict[str, Any]
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    timeout_ms: int
    retry: dict[str, Any] | None
    concurrency_key: str
    concurrency_limit: int
    rate_key: str
    per_minute: int
    last_owner: str
    bridge: dict[str, Any] | None
    lease_in_ms: int | None
    deadline_in_ms: int | None
    not_before_in_ms: int | None
    attempts: list[AttemptView] = field(default_factory=list)


def show_task(store: PersistenceAPI, task: str) -> TaskDetail:
    """One task by its id or a beginning that only it has; UnknownSubject if there is none."""
    found = store.get_task(task)
    if found is None:
        fitting = store.find_tasks(TaskFilter(prefix=task, limit=2)) if task else []
        if len(fitting) > 1:
            raise InputError(f"several tasks start with {task}; write more of the id")
        if not fitting:
            raise UnknownSubject(f"there is no task {task!r} in this store; `afl tasks` lists them")
        found = fitting[0]
    snapshot = DiagnosticSnapshot(store)
    return TaskDetail(
        line=_line(snapshot, found),
        created=found.created,
        priority=found.priority,
        data=found.params,
        result=found.result,
        error=found.error,
        timeout_ms=found.timeout_ms,
        retry=found.retry,
        concurrency_key="" if found.per_minute else found.concurrency_key,
        concurrency_limit=0 if found.per_minute else found.concurrency_limit,
        rate_key=found.rate_key,
        per_minute=found.per_minute,
        last_owner=snapshot.owner(found.last_owner) if found.last_owner else "",
        bridge=found.bridge,
        lease_in_ms=_from_now(snapshot, found.lease_until),
        deadline_in_ms=_from_now(snapshot, found.deadline),
        not_before_in_ms=_from_now(snapshot, found.not_before),
        attempts=step_attempts(store, [found], snapshot.owner),
    )


def _from_now(snapshot: DiagnosticSnapshot, moment: int) -> int | None:
    return moment - snapshot.now if moment else None


def list_tasks(
    store: PersistenceAPI,
    *,
    state: TaskStateName = "",
    name: Annotated[str, about("Only tasks of this facet.")] = "",
    task_list: Annotated[str, about("Only this task list.")] = "",
    run: Annotated[str, about("All tasks of one run.")] = "",
    hold: Annotated[str, about("Only those that this keeps back.")] = "",
    owner: Annotated[str, about("Only those that this process holds.")] = "",
    skip: Skip = 0,
    limit: Limit = 50,
) -> list[TaskLine]:
    """List tasks: the work of agents, oldest first. Running ones come before waiting ones."""
    wanted = TaskFilter(
        state=state, name=name, task_list=task_list, hold=hold, owner=owner, limit=skip + limit
    )
    if run:
        found = store.find_tasks(replace(wanted, workflow_id=run_store.find(store, run).workflow_id))
    elif state:
        found = store.find_tasks(wanted)
    else:
        found = [task for each in _OPEN for task in store.find_tasks(replace(wanted, state=each))]
    snapshot = DiagnosticSnapshot(store)
    return [_line(snapshot, task) for task in found[skip : skip + limit]]


def _line(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> TaskLine:
    return TaskLine(
        task=task.uuid,
        name=task.name,
        state=task.state,
        hold=task.hold,
        task_list=task.task_list_name,
        run=task.workflow_id,
        step=paths.shown(task.step_id, WorkflowId(task.workflow_id)) if task.step_id else "",
        step_id=task.step_id,
        owner=snapshot.owner(task.owner) if task.owner else "",
        attempts=task.attempts,
        deaths=task.deaths,
        expiries=task.expiries,
        failures=task.failed_attempts,
        age_ms=max(0, wall_ms() - task.created),
        error=str((task.error or {}).get("message", "")),
        via=task.via,
        waits=_waits(task, snapshot.now),
    )


def _waits(task: TaskDefinition, now: int) -> str:
    later = task.not_before > now
    if task.state != TaskState.PENDING:
        return ""
    if task.per_minute and (task.hold == TaskHold.CONCURRENCY or (later and not task.hold)):
        return "rate"
    if later and task.hold in ("", TaskHold.ELSEWHERE):
        return "retry" if task.failures else "delayed"
    return task.hold
