"""The error of an attempt whose time was up."""

from __future__ import annotations

from afl.runtime.entities.tasks import TaskDefinition

TIMEOUT_ERROR = "Timeout"


def timeout_text(task: TaskDefinition) -> str:
    """What it says."""
    kind, _, who = task.via.partition(":")
    if kind == "signal":
        return f"signal {who} did not come within {task.timeout_ms} ms"
    due = f"answered by {who}" if kind == "human" else "done"
    return f"not {due} after {task.timeout_ms} ms"
