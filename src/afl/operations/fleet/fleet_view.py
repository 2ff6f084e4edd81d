"""Workflows and runs of the fleet as plain records: for those who ask over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.fleet.client import Client
from afl.fleet.messages import RunView
from afl.fleet.workflow import Task, Workflow
from afl.fleet.workflow_json import to_data
from afl.operations.fleet.fleet import show_run, start, workflows
from afl.operations.fleet.fleet_dag import TaskLine


@dataclass(frozen=True, slots=True)
class FleetTask:
    """A node of a DAG; `kind` says what starts it."""

    task_id: str
    name: str
    kind: str
    description: str
    depends: list[str]


@dataclass(frozen=True, slots=True)
class FleetWorkflow:
    """A DAG that can be started. `definition` is all of it, as principal and agents exchange it."""

    id: str
    name: str
    description: str
    path: str
    cron: str
    parameters: list[str]
    tasks: list[FleetTask]
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FleetRun:
    """A run with its tasks in the order of the DAG, and the workflow as it was when the run was made."""

    run: RunView
    tasks: list[TaskLine]
    workflow: FleetWorkflow | None


@dataclass(frozen=True, slots=True)
class FleetStarted:
    """A run that the principal has."""

    run_id: str
    workflow_id: str


def list_workflows(client: Client) -> list[FleetWorkflow]:
    """Every workflow that can be started, by id."""
    return [_workflow(each) for each in workflows(client)]


def show(client: Client, run_id: str) -> FleetRun:
    """A run with its tasks and its workflow."""
    found = show_run(client, run_id)
    workflow = _workflow(found.workflow) if found.workflow is not None else None
    return FleetRun(found.run, list(found.tasks), workflow)


def start_run(client: Client, workflow_id: str, params: dict[str, Any] | None = None) -> FleetStarted:
    """Start a run; what does not fit the workflow's parameters is refused."""
    return FleetStarted(start(client, workflow_id, params), workflow_id)


def _workflow(workflow: Workflow) -> FleetWorkflow:
    return FleetWorkflow(
        id=workflow.id,
        name=workflow.name,
        description=workflow.description or "",
        path=workflow.path,
        cron=workflow.cron or "",
        parameters=list(workflow.params),
        tasks=[_task(task_id, task) for task_id, task in workflow.tasks.items()],
        definition=to_data(workflow),
    )


def _task(task_id: str, task: Task) -> FleetTask:
    kind = type(task.config).__name__
    return FleetTask(task_id, task.name, kind, task.description or "", list(task.depends))
