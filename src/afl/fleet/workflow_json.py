"""The JSON of a workflow between peers: the keys of the reference, and our own where they differ from their default."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from afl.fleet.workflow import CONFIGS, Subprocess, Task, UvPython, Workflow
from afl.kernel.codec import decode, encode
from afl.kernel.errors import InputError

_OWN_TASK_KEYS = ("env", "working_directory", "timeout", "retries", "allow_failure", "always")
_OWN_AGENT_KEYS = ("max_parallel",)
_OWN_PRINCIPAL_KEYS = ("params", "overlap", "catch_up", "requeues")  # not needed by agents
_REFERENCE_KINDS = (Subprocess, UvPython)
_MOST_TASKS = 3  # shown of those that need our agent


def encode_workflow(workflow: Workflow) -> str:
    """JSON text."""
    return encode(to_data(workflow), what=f"workflow {workflow.id!r}")


def decode_workflow(text: str | bytes) -> Workflow:
    """A workflow from JSON text; InputError says what is wrong with it."""
    try:
        value = decode(text)
    except msgspec.DecodeError as error:
        raise InputError(f"a workflow is not JSON: {error}") from error
    return from_data(value)


def to_data(workflow: Workflow) -> dict[str, Any]:
    """Plain data with the keys of the reference, in its order, and ours."""
    own = _own_keys(workflow, (*_OWN_AGENT_KEYS, *_OWN_PRINCIPAL_KEYS))
    return _workflow_data(workflow, lambda task: _task_data(task) | _own_keys(task, _OWN_TASK_KEYS)) | own


def to_reference_data(workflow: Workflow) -> dict[str, Any] | None:
    """Plain data with the keys of the reference only; None for a workflow with a task kind that it does not know."""
    if not all(isinstance(task.config, _REFERENCE_KINDS) for task in workflow.tasks.values()):
        return None
    return _workflow_data(workflow, _task_data)


def needs_of(workflow: Workflow) -> str:
    """The keys that agents of the reference do not support; empty: none."""
    needs = list(_own_keys(workflow, _OWN_AGENT_KEYS))
    tasks = [
        f"{', '.join(keys)} (task {task_id})"
        for task_id, task in workflow.tasks.items()
        if (keys := _task_needs(task))
    ]
    needs += tasks[:_MOST_TASKS]
    if len(tasks) > _MOST_TASKS:
        needs.append(f"and of {len(tasks) - _MOST_TASKS} more tasks")
    return ", ".join(needs)


def from_data(value: Any) -> Workflow:
    """The workflow of plain data; InputError names the workflow and the key that is wrong."""
    if not isinstance(value, dict):
        raise InputError(f"a workflow is {type(value).__name__}; expected an object")
    where = f"workflow {value.get('id')!r}"
    try:
        tasks = {name: _task_from_data(task) for name, task in value["dag"]["task_map"].items()}
        workflow = Workflow(tasks=tasks, **_fields(value, _WORKFLOW_TYPES))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where} cannot be read: {error}") from error
    try:
        _ = workflow.dag
    except InputError as error:
        raise InputError(f"{where} cannot be run: {error}") from error
    return workflow


def _workflow_data(workflow: Workflow, task_data: Callable[[Task], dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": workflow.id,
        "name": workflow.name,
        "description": workflow.description,
        "path": workflow.path,
        "dag": _dag_data(workflow, task_data),
        "cron": workflow.cron,
        "start_time": workflow.start_time,
    }


def _dag_data(workflow: Workflow, task_data: Callable[[Task], dict[str, Any]]) -> dict[str, Any]:
    indexes = {task_id: index for index, task_id in enumerate(workflow.tasks)}
    edges = [
        [indexes[name], indexes[task_id], 0]
        for task_id, task in workflow.tasks.items()
        for name in dict.fromkeys(task.depends)
    ]
    return {
        "name": workflow.name,
        "task_id_node_ix_map": indexes,
        "task_map": {task_id: task_data(task) for task_id, task in workflow.tasks.items()},
        "inner": {"nodes": list(indexes), "node_holes": [], "edge_property": "directed", "edges": edges},
        "first_tasks": [task_id for task_id, task in workflow.tasks.items() if not task.depends],
    }


def _task_data(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "description": task.description,
        "depends": list(task.depends) or None,
        "config": {type(task.config).__name__: msgspec.to_builtins(task.config)},
    }


def _task_needs(task: Task) -> list[str]:
    kind = [] if isinstance(task.config, _REFERENCE_KINDS) else [f"!{type(task.config).__name__}"]
    return kind + ["when" if key == "always" else key for key in _own_keys(task, _OWN_TASK_KEYS)]


def _task_from_data(value: Mapping[str, Any]) -> Task:
    [(kind, body)] = value["config"].items()
    if kind not in CONFIGS:
        raise TypeError(f"task config {kind!r} is not one of {', '.join(CONFIGS)}")
    config = msgspec.convert(body, CONFIGS[kind])
    return Task(config=config, **_fields(value, _TASK_TYPES))


def _fields(value: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    """The known keys that are not null, each converted to its type; unknown keys are ignored."""
    found: dict[str, Any] = {}
    for key, kind in types.items():
        if value.get(key) is not None:
            try:
                found[key] = msgspec.convert(value[key], kind)
            except msgspec.ValidationError as error:
                raise ValueError(f"{key}: {error}") from error
    return found


def _own_keys(owner: Workflow | Task, keys: tuple[str, ...]) -> dict[str, Any]:
    """Our keys that differ from their default."""
    defaults = {item.name: item for item in dataclasses.fields(owner)}
    found: dict[str, Any] = {}
    for key in keys:
        value, row = getattr(owner, key), defaults[key]
        default = row.default if row.default is not dataclasses.MISSING else {}
        if value != default:
            found[key] = msgspec.to_builtins(value)
    return found


# The class of a config depends on its tag, which msgspec does not know for dataclasses: it is converted by hand.
_WORKFLOW_TYPES = {name: kind for name, kind in get_type_hints(Workflow).items() if name != "tasks"}
_TASK_TYPES = {name: kind for name, kind in get_type_hints(Task).items() if name != "config"}
