"""Who could take a pending task, and why nobody has."""

from __future__ import annotations

from afl.kernel.clock import wall_ms
from afl.kernel.near_names import near_name
from afl.kernel.presence import Life
from afl.operations.reason.reasons import Reason
from afl.operations.reason.snapshot import DiagnosticSnapshot
from afl.operations.spans import span
from afl.operations.work.workers import Server
from afl.runtime.entities import TaskDefinition

_DEFAULT_LIST = "default"
_SHOWN = 3


def staffing(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason:
    """The reason of a task that may be claimed."""
    serving = [server for server in snapshot.servers if server.serves(task.name)]
    live = [server for server in serving if server.is_live]
    here = [server for server in live if server.serves_list(task.task_list_name)]
    if not here:
        local = _local(snapshot, task)
        if local is not None:
            return local
        return _other_list(task, live) if live else _unserved(snapshot, task, serving)
    free = [server for server in here if not server.is_full]
    if not free:
        return _full(task, here)
    sentence = f"{free[0].title} serves {task.name}, works on {free[0].use} tasks, and is about to claim it."
    action = f"Wait a moment; if it stays so, see: afl why {free[0].id}"
    return Reason("task-ready", "task", task.uuid, sentence, action)


def _local(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason | None:
    """`afl run` and `afl resume` serve their run without registering."""
    run = snapshot.run(task.workflow_id)
    if run is None or not run.owner or snapshot.life(run.owner) is not Life.ALIVE:
        return None
    sentence = (
        f"no registered server serves {task.name}; {snapshot.owner(run.owner)} runs the workflow, "
        "and takes the task if it has a handler for it, when there is room."
    )
    return Reason("task-local", "task", task.uuid, sentence, "Wait.")


def _unserved(snapshot: DiagnosticSnapshot, task: TaskDefinition, gone: list[Server]) -> Reason:
    if gone:
        last = min(gone, key=lambda server: server.ping_age_ms)
        seen = f"last seen {span(last.ping_age_ms)} ago on {last.name}"
    else:
        seen = "none ever did in this store"
    near = _near(snapshot, task)
    but = f", but one serves {near}" if near else ""
    sentence = f"no live server serves {task.name}; {seen}{but}."
    start = _start(task.task_list_name)
    action = f"Start an agent for it: {start}"
    if near:
        action = f"Correct the name in @handler({near!r}) if that is meant, or start an agent: {start}"
    return Reason("task-unserved", "task", task.uuid, sentence, action)


def _start(task_list: str) -> str:
    """The command that starts an agent of this list."""
    return "afl agent MODULE" + (f" --task-list {task_list}" if task_list != _DEFAULT_LIST else "")


def _near(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> str:
    """The name, almost the same, that a live server serves, if it is not that of another facet of the program."""
    known = {name for server in snapshot.servers if server.is_live for name in server.handlers}
    near = near_name(task.name, known)
    run = snapshot.run(task.workflow_id) if near else None
    if run is None or near not in (declared := snapshot.program(run).declarations):
        return near
    return near_name(task.name, known.difference(declared))


def _other_list(task: TaskDefinition, live: list[Server]) -> Reason:
    lists = sorted({server.task_list for server in live})
    wanted = task.task_list_name
    word = "list" if len(lists) == 1 else "lists"
    sentence = (
        f"it waits on list {wanted}; servers that serve {task.name} serve {word} {', '.join(lists[:_SHOWN])}."
    )
    return Reason(
        "task-other-list",
        "task",
        task.uuid,
        sentence,
        f"Start one there: {_start(wanted)}",
    )


def _full(task: TaskDefinition, here: list[Server]) -> Reason:
    ordered = sorted(here, key=lambda server: server.name)
    shown = ", ".join(f"{server.name} {server.use}" for server in ordered[:_SHOWN])
    more = f" and {len(here) - _SHOWN} more" if len(here) > _SHOWN else ""
    one = f"the only live server that serves {task.name} is full"
    several = f"all {len(here)} live servers that serve {task.name} are full"
    who = one if len(here) == 1 else several
    sentence = f"{who}: {shown}{more}; it has waited {span(wall_ms() - task.created)}."
    return Reason(
        "task-servers-full", "task", task.uuid, sentence, "Wait, start another agent, or raise --concurrency."
    )
