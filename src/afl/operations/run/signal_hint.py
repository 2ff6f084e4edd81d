"""What to do about a task that waits for a signal."""

from __future__ import annotations

import shlex

from afl.runtime.entities import FACET_INFO, TaskDefinition


def how_to_deliver(task: TaskDefinition) -> str:
    """The command that delivers what a task waits for."""
    returns = ((task.data or {}).get(FACET_INFO) or {}).get("returns") or {}
    inputs = "".join(f" --input {shlex.quote(name)}={kind.upper()}" for name, kind in returns.items())
    name = shlex.quote(task.via.partition(":")[2])
    return f"afl signal {task.workflow_id} {name}{inputs}"
