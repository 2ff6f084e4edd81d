"""Why a task is not done that is done elsewhere: by a person, an agent, the fleet or a message."""

from __future__ import annotations

from afl.kernel.presence import Life
from afl.operations.reason.reasons import Reason
from afl.operations.reason.snapshot import DiagnosticSnapshot, first_line
from afl.operations.spans import span
from afl.runtime.entities import TaskDefinition

_PLACES = {"agent": "agent", "fleet": "the fleet's workflow", "message": "a message to"}
_KINDS = {"agent": "agents", "fleet": "the fleet", "message": "messages"}


def elsewhere_reason(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason:
    """The reason of a task that is with somebody else."""
    kind, _, name = task.via.partition(":")
    if kind == "human":
        sentence = f"somebody of {name} has to answer{_limits(snapshot, task)}."
        return _reason("task-human", task, sentence, f"Answer it: afl approvals show {task.uuid}")
    place = f"{_PLACES.get(kind, kind)} {name}"
    waits, queued = (_said(snapshot, task, key) for key in ("waits", "queued"))
    hosts = [server for server in snapshot.servers if server.is_live and kind in server.bridges]
    if hosts and waits:
        sentence = f"{place} cannot be asked{_limits(snapshot, task)}: {waits}."
        return _reason("task-not-begun", task, sentence, "Start or mend the other side; it is tried again.")
    host = hosts[0].title if hosts else _owner(snapshot, task)
    if host and queued:
        sentence = f"handed to {place} by {host}{_limits(snapshot, task)}; {queued}."
        return _reason(
            "task-queued-elsewhere", task, sentence, "Start an agent that can run it: afl fleet agent"
        )
    if host:
        sentence = f"handed to {place} by {host}{_limits(snapshot, task)}."
        return _reason("task-elsewhere", task, sentence, "Wait for its answer.")
    sentence = (
        f"handed to {place}; no live server bridges to {_KINDS.get(kind, kind)}{_limits(snapshot, task)}."
    )
    action = f"Start one: afl runner; or go on with: afl resume {task.workflow_id}"
    return _reason("task-no-bridge", task, sentence, action)


def _owner(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> str:
    """The process that runs the workflow, in words, if it lives."""
    run = snapshot.run(task.workflow_id)
    if run is None or not run.owner or snapshot.life(run.owner) is not Life.ALIVE:
        return ""
    return f"{snapshot.owner(run.owner)}, which runs the workflow"


def _said(snapshot: DiagnosticSnapshot, task: TaskDefinition, key: str) -> str:
    """What a bridge last said of a task: `waits`, it could not begin it; `queued`, nobody takes it up over there."""
    said = snapshot.last_log(task.workflow_id, task.step_id)
    if said is None or said.object_id != task.uuid:
        return ""
    return first_line(str(said.details.get(key, "")))


def _limits(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> str:
    """How long it may take, in words, with a leading semicolon."""
    parts = []
    if task.lease_until:
        to = (task.bridge or {}).get("escalate_to", "")
        parts.append(f"{to} is asked {_when(snapshot, task.lease_until)}")
    if task.deadline:
        parts.append(f"expires {_when(snapshot, task.deadline)}")
    return "".join(f"; {part}" for part in parts)


def _when(snapshot: DiagnosticSnapshot, moment: int) -> str:
    if moment > snapshot.now:
        return f"in {span(moment - snapshot.now)}"
    return (
        "at the next sweep"
        if snapshot.has_live_server
        else "when a server is started: none is alive to see to it"
    )


def _reason(code: str, task: TaskDefinition, sentence: str, action: str) -> Reason:
    return Reason(code, "task", task.uuid, sentence, action)
