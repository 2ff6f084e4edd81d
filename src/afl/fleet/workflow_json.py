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
_OWN_PRINCIPAL_KEYS = ("params", "overlap", "catch_up", "requeues")  # an agent need not know them
_REFERENCE_KINDS = (Subprocess, UvPython)
_MOST_TASKS = 3  # that are named among those that need an agent of ours


def encode_workflow(workflow: Workflow) -> str:
    """JSON text."""
    return encode(to_wire(workflow), what=f"workflow {workflow.id!r}")


def decode_workflow(text: str | bytes) -> Workflow:
    """A workflow from JSON text; InputError says what is wrong with it."""
    try:
        value = decode(text)
    except msgspec.DecodeError as error:
        raise InputError(f"a workflow is not JSON: {error}") from error
    return from_wire(value)


def to_wire(workflow: Workflow) -> dict[str, Any]:
    """Plain data with the keys of the reference, in its order, and ours."""
    own = _own_keys(workflow, (*_OWN_AGENT_KEYS, *_OWN_PRINCIPAL_KEYS))
    return (
        _workflow_to_wire(workflow, lambda task: _task_to_wire(task) | _own_keys(task, _OWN_TASK_KEYS)) | own
    )


def to_reference_wire(workflow: Workflow) -> dict[str, Any] | None:
    """Plain data with the keys of the reference alone; None for a workflow with a task of a kind it does not know."""
    if not all(isinstance(task.config, _REFERENCE_KINDS) for task in workflow.tasks.values()):
        return None
    return _workflow_to_wire(workflow, _task_to_wire)


def needs_of(workflow: Workflow) -> str:
    """What a run of it needs that agents of the reference do not know, as the keys of its file; empty: nothing."""
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


def from_wire(value: Any) -> Workflow:
    """The workflow of plain data; InputError names the workflow and the key that is wrong."""
    if not isinstance(value, dict):
        raise InputError(f"a workflow is {type(value).__name__}; expected an object")
    where = f"workflow {value.get('id')!r}"
    try:
        tasks = {name: _task_from_wire(task) for name, task in value["dag"]["task_map"].items()}
        workflow = Workflow(tasks=tasks, **_fields(value, _WORKFLOW_TYPES))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where} cannot be read: {error}") from error
    try:
        _ = workflow.dag
    except InputError as error:
        raise InputError(f"{where} cannot be run: {error}") from error
    return workflow


def _workflow_to_wire(workflow: Workflow, task_to_wire: Callable[[Task], dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": workflow.id,
        "name": workflow.name,
        "description": workflow.description,
        "path": workflow.path,
        "dag": _dag_to_wire(workflow, task_to_wire),
        "cron": workflow.cron,
        "start_time": workflow.start_time,
    }


def _dag_to_wire(workflow: Workflow, task_to_wire: Callable[[Task], dict[str, Any]]) -> dict[str, Any]:
    indexes = {task_id: index for index, task_id in enumerate(workflow.tasks)}
    edges = [
        [indexes[name], indexes[task_id], 0]
        for task_id, task in workflow.tasks.items()
        for name in dict.fromkeys(task.depends)
    ]
    return {
        "name": workflow.name,
        "task_id_node_ix_map": indexes,
        "task_map": {task_id: task_to_wire(task) for task_id, task in workflow.tasks.items()},
        "inner": {"nodes": list(indexes), "node_holes": [], "edge_property": "directed", "edges": edges},
        "first_tasks": [task_id for task_id, task in workflow.tasks.items() if not task.depends],
    }


def _task_to_wire(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "description": task.description,
        "depends": list(task.depends) or None,
        "config": {type(task.config).__name__: msgspec.to_builtins(task.config)},
    }


def _task_needs(task: Task) -> list[str]:
    kind = [] if isinstance(task.config, _REFERENCE_KINDS) else [f"!{type(task.config).__name__}"]
    return kind + ["when" if key == "always" else key for key in _own_keys(task, _OWN_TASK_KEYS)]


def _task_from_wire(value: Mapping[str, Any]) -> Task:
    [(kind, body)] = value["config"].items()
    if kind not in CONFIGS:
        raise TypeError(f"task config {kind!r} is not one of {', '.join(CONFIGS)}")
    config = msgspec.convert(body, CONFIGS[kind])
    return Task(config=config, **_fields(value, _TASK_TYPES))


def _fields(value: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    """The known keys that hold something, each checked against its type; a key we do not know is passed over."""
    found: dict[str, Any] = {}
    for key, kind in types.items():
        if value.get(key) is not None:
            try:
                found[key] = msgspec.convert(value[key], kind)
            except msgspec.ValidationError as error:
                raise ValueError(f"{key}: {error}") from error
    return found


def _own_keys(owner: Workflow | Task, keys: tuple[str, ...]) -> dict[str, Any]:
    """Those of our keys that differ from their default."""
    defaults = {item.name: item for item in dataclasses.fields(owner)}
    found: dict[str, Any] = {}
    for key in keys:
        value, row = getattr(owner, key), defaults[key]
        default = row.default if row.default is not dataclasses.MISSING else {}
        if value != default:
            found[key] = msgspec.to_builtins(value)
    return found


# Which class a config is depends on its tag, which msgspec does not know for dataclasses: it is read by hand.
_WORKFLOW_TYPES = {name: kind for name, kind in get_type_hints(Workflow).items() if name != "tasks"}
_TASK_TYPES = {name: kind for name, kind in get_type_hints(Task).items() if name != "config"}
