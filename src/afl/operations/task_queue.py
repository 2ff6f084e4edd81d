"""Tasks, one line each."""

from __future__ import annotations

from dataclasses import dataclass

from afl.kernel.clock import wall_ms
from afl.operations import runs
from afl.operations.scene import Scene
from afl.runtime import paths
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

_OPEN = (TaskState.RUNNING, TaskState.PENDING)


@dataclass(frozen=True)
class TaskLine:
    """One task. Of its attempts, `deaths` ended with their owner's death and `failures` were tried again."""

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
    failures: int
    age_ms: int
    error: str


def list_tasks(
    store: PersistenceAPI,
    *,
    state: str = "",
    name: str = "",
    task_list: str = "",
    run: str = "",
    limit: int = 50,
) -> list[TaskLine]:
    """Tasks, oldest first: of a state, or of all that are running or pending; of one run, if named, all it has."""
    if run:
        found = _of_run(store, run, state, name, task_list)
    else:
        states = (state,) if state else _OPEN
        every = (store.find_tasks(state=each, name=name, task_list=task_list, limit=limit) for each in states)
        found = [task for tasks in every for task in tasks]
    scene = Scene(store)
    return [_line(scene, task) for task in found[:limit]]


def _of_run(store: PersistenceAPI, run: str, state: str, name: str, task_list: str) -> list[TaskDefinition]:
    found = store.get_tasks_by_workflow(WorkflowId(runs.find(store, run).workflow_id))
    wanted = (state, name, task_list)
    return [
        task
        for task in found
        if all(not word or word == own for word, own in zip(wanted, _traits(task), strict=True))
    ]


def _traits(task: TaskDefinition) -> tuple[str, str, str]:
    return task.state, task.name, task.task_list_name


def _line(scene: Scene, task: TaskDefinition) -> TaskLine:
    return TaskLine(
        task=task.uuid,
        name=task.name,
        state=task.state,
        hold=task.hold,
        task_list=task.task_list_name,
        run=task.workflow_id,
        step=paths.shown(task.step_id, WorkflowId(task.workflow_id)) if task.step_id else "",
        step_id=task.step_id,
        owner=scene.owner(task.owner) if task.owner else "",
        attempts=task.deliveries,
        deaths=task.deaths,
        failures=task.failures,
        age_ms=max(0, wall_ms() - task.created),
        error=str((task.error or {}).get("message", "")),
    )
